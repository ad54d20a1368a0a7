"""Answers of listings that are kept on disk, so that asking again does not import torch and every plugin.

An answer is the text that was printed. It is kept below the user's cache folder, under a hash of all that it depends on: the words, the
screen, the variables of the environment that count, every installed package, and each file of lightrl and of its plugins. Nothing that is
read from there is executed. Answers of an installation in which a plugin is broken are not kept, since nobody knows what mends it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib.metadata import entry_points
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

LISTINGS = (["algorithms"], ["explain"], ["plugins", "list"])
"""How the words of a listing begin."""
KEPT = 100
"""Answers, the newest ones."""
_PLAIN = re.compile(r"-{0,2}[A-Za-z][\w-]*")
"""A name or an option; a path may lead to a file of which nothing is known here."""
_VARIABLES = ("COLUMNS", "LINES", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "LIGHTRL_PLUGINS")
_ANSWERED = re.compile(r"lightrl\.v\d+")


def is_listing(words: Sequence[str]) -> bool:
    """Whether the answer to these words depends on what is installed alone."""
    begins = any(list(words[: len(listing)]) == listing for listing in LISTINGS)
    return begins and all(map(_PLAIN.fullmatch, words))


def answer(words: Sequence[str], carry_out: Callable[[], int]) -> int:
    """Print the answer that is kept, or carry the words out and keep what they print.

    Args:
        words: of a listing.
        carry_out: prints the answer, and gives the status.
    """
    file = _folder() / f"{_fingerprint(words)}.json"
    with suppress(OSError, ValueError):
        kept = json.loads(file.read_text(encoding="utf-8"))
        sys.stdout.write(kept["out"])
        sys.stderr.write(kept["err"])
        return 0
    with _heard() as (out, err):
        status = carry_out()
    if status == 0 and _all_loaded():
        # a folder where nobody may write costs the next listing some time, and nothing else
        with suppress(OSError):
            _write(file, json.dumps({"out": out.getvalue(), "err": err.getvalue()}))
    return status


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lightrl" / "listings"


def _fingerprint(words: Sequence[str]) -> str:
    screen = [_size(number) for number in range(3)]
    streams = [(stream.isatty(), stream.encoding) for stream in (sys.stdout, sys.stderr)]
    variables = {name: os.environ.get(name) for name in _VARIABLES}
    found = [list(words), screen, streams, variables, sys.version, sys.executable, list(_packages()), list(_files())]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def _size(descriptor: int) -> list[int] | None:
    try:
        return list(os.get_terminal_size(descriptor))
    except OSError:
        return None


def _packages() -> Iterator[tuple[str, int]]:
    """The folders in which packages say their version."""
    for folder in dict.fromkeys(sys.path):
        if folder and Path(folder).is_dir():
            with os.scandir(folder) as entries:
                found = [(e.path, e.stat().st_mtime_ns) for e in entries if e.name.endswith((".dist-info", ".egg-info", ".pth"))]
            yield from sorted(found)


def _files() -> Iterator[tuple[str, int, int]]:
    """The files of lightrl and of its plugins, none of them imported."""
    every = entry_points()
    modules = {
        entry.module.partition(".")[0] for group in every.groups if _ANSWERED.fullmatch(group) for entry in every.select(group=group)
    }
    for module in sorted(modules):
        spec = find_spec(module)
        for folder in spec.submodule_search_locations or [] if spec else []:
            yield from _below(folder)
        if spec and spec.origin and not spec.submodule_search_locations:
            alone = Path(spec.origin).stat()
            yield spec.origin, alone.st_mtime_ns, alone.st_size


def _below(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir() and entry.name != "__pycache__":
                yield from _below(entry.path)
            elif entry.is_file():
                yield entry.path, entry.stat().st_mtime_ns, entry.stat().st_size


def _all_loaded() -> bool:
    from lightrl.registry.classes import registry

    return not any(record.error for record in registry().records)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as unfinished:
        unfinished.write(text)
    Path(unfinished.name).replace(file)
    newest_first = sorted(file.parent.glob("*.json"), key=lambda answer: answer.stat().st_mtime_ns, reverse=True)
    for old in newest_first[KEPT:]:
        old.unlink(missing_ok=True)


class _Heard:
    """A stream that also keeps what is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._kept = stream, StringIO()

    def write(self, text: str) -> int:
        self._kept.write(text)
        return self._stream.write(text)

    def getvalue(self) -> str:
        return self._kept.getvalue()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _heard() -> Iterator[tuple[_Heard, _Heard]]:
    out, err = _Heard(sys.stdout), _Heard(sys.stderr)
    with redirect_stdout(out), redirect_stderr(err):  # type: ignore[type-var]
        yield out, err
