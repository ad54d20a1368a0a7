"""The rows of a file with one JSON object per line; what JSON does not allow is refused with its place."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO

from lightrl.data.records import Record

LONGEST = 2**26
"""Characters of a line: what is longer is no row, but a file without line breaks or one that unpacks to more than memory holds."""


def json_lines(path: Path) -> Iterator[Record]:
    """The objects of a file with one per line, gzipped if its name ends in `.gz`; empty lines are passed over.

    Raises:
        ValueError: it is no text, or a line is not a JSON object.
    """
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            yield f"{path.name}:{number}", _json_object(f"{path}:{number}", line)


def _lines(path: Path) -> Iterator[str]:
    try:
        # a byte order mark, which some editors write, is no part of the text
        with gzip.open(path, "rt", encoding="utf-8-sig") if path.suffix == ".gz" else path.open(encoding="utf-8-sig") as file:
            yield from _short_lines(path, file)
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{str(path)!r} cannot be read as text: {error}") from error


def _short_lines(path: Path, file: TextIO) -> Iterator[str]:
    number = 0
    while line := file.readline(LONGEST):
        number += 1
        if len(line) == LONGEST:
            raise ValueError(f"{path}:{number}: the line has {LONGEST:,} characters or more, which no row has: write one object per line")
        yield line


def _json_object(place: str, line: str) -> dict[str, Any]:
    try:
        row = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{place}: not valid JSON: {error.msg} at column {error.colno} of {line.strip()[:80]!r}") from error
    except RecursionError as error:
        raise ValueError(f"{place}: brackets are nested too deeply in {line.strip()[:80]!r}") from error
    except ValueError as error:
        raise ValueError(f"{place}: {error}, in {line.strip()[:80]!r}") from error
    if not isinstance(row, dict):
        raise ValueError(f"{place}: every line must be a JSON object {{column: value}}, got a {type(row).__name__}")
    return row


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for i, key in enumerate(keys) if key in keys[:i])
        raise ValueError(f"the key {twice[:80]!r} stands twice in one object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON: write null where there is no number")


_DECODER = json.JSONDecoder(object_pairs_hook=_without_repetition, parse_constant=_refuse)
