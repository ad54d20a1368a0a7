"""Prompts from files: JSON lines, Parquet, and whatever the `datasets` library reads."""

from __future__ import annotations

import difflib
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from lightrl.data.records import Record, Records
from lightrl.registry.classes import first_line

READ_BY = {
    ".parquet": "Parquet reads it, with the same arguments",
    ".csv": "DatasetPrompts reads a folder of such files, with `name: FOLDER` in place of `path`",
}
"""By the ending of a file that holds no JSON: the source for it."""


class JsonLines(Records):
    """Prompts from a file with one JSON object per line, gzipped if its name ends in `.gz`."""

    def __init__(self, path: str, **kwargs: Any) -> None:
        """
        Args:
            path: the file.
            **kwargs: how a row becomes a prompt, see `Records`.

        Raises:
            ValueError: there is no such file, it has no rows, or a line is not a JSON object.
        """
        super().__init__(**kwargs)
        self.path = path
        file = existing_file(path)
        if (reader := READ_BY.get(file.suffix)) is not None:
            raise ValueError(f"{path!r} is no file of JSON lines: {reader}")
        self._read(f"the file {path!r}", json_lines(file))


class Parquet(Records):
    """Prompts from a Parquet file."""

    def __init__(self, path: str, **kwargs: Any) -> None:
        """
        Args:
            path: the file.
            **kwargs: how a row becomes a prompt, see `Records`.

        Raises:
            ValueError: there is no such file, it is not Parquet, or it has no rows.
        """
        super().__init__(**kwargs)
        self.path = path
        self._read(f"the file {path!r}", parquet_rows(existing_file(path)))


class DatasetPrompts(Records):
    """Prompts from a data set that the `datasets` library loads; no code that comes with the data is executed."""

    def __init__(self, name: str, split: str = "train", subset: str | None = None, revision: str | None = None, **kwargs: Any) -> None:
        """
        Args:
            name: a hub id such as `openai/gsm8k`, or a folder with data files or written by `save_to_disk`.
            split: which split, `train`, or a part of it, `train[:1000]`.
            subset: the configuration of the data set, `main` of `openai/gsm8k`.
            revision: branch, tag or commit on the hub; null: the newest.
            **kwargs: how a row becomes a prompt, see `Records`.

        Raises:
            ValueError: the data set, the subset or the split cannot be loaded; the message says why.
        """
        super().__init__(**kwargs)
        self.name, self.split, self.subset, self.revision = name, split, subset, revision
        rows = ((f"{name} {split} row {number}", row) for number, row in enumerate(self._table(), start=1))
        self._read(f"the split {split!r} of the data set {name!r}", rows)

    def _table(self) -> Any:
        from datasets import load_dataset

        folder = Path(self.name).expanduser()
        if self.name.startswith((".", "/", "~")) and not folder.is_dir():
            raise ValueError(f"there is no folder {self.name!r}. {_neighbours(folder)}")
        try:
            if (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file():
                return _from_disk(folder, self.split)
            return load_dataset(str(folder) if folder.is_dir() else self.name, self.subset, split=self.split, revision=self.revision)
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise ValueError(f"the data set {self.name!r} cannot be loaded: {first_line(str(error)) or type(error).__name__}") from error


def existing_file(path: str) -> Path:
    """The file at this path; a ValueError that lists what is in its folder if there is none."""
    file = Path(path).expanduser()
    if file.exists() and not file.is_file():
        what = f"a folder. {_neighbours(file / '*')}" if file.is_dir() else "a device or pipe"
        raise ValueError(f"rows are read from a file, and {path!r} is {what}")
    if not file.is_file():
        found = "It is a symbolic link that leads nowhere" if file.is_symlink() else _neighbours(file)
        raise ValueError(f"there is no file {path!r}. {found}")
    return file


def table_rows(path: str) -> Iterator[Record]:
    """The rows of a file: Parquet if its name ends in `.parquet`, else JSON lines, gzipped if it ends in `.gz`.

    Raises:
        ValueError: there is no such file, or it cannot be read as what its name says.
    """
    file = existing_file(path)
    return parquet_rows(file) if file.suffix == ".parquet" else json_lines(file)


def _from_disk(folder: Path, split: str) -> Any:
    from datasets import DatasetDict, load_from_disk

    loaded = load_from_disk(str(folder))
    if not isinstance(loaded, DatasetDict):
        if loaded.split is not None and str(loaded.split) != split:
            raise ValueError(f"the folder holds the split {str(loaded.split)!r}, not {split!r}: set split to {str(loaded.split)!r}")
        return loaded
    if split not in loaded:
        raise ValueError(f"there is no split {split!r}; it has: {', '.join(loaded)}")
    return loaded[split]


def _neighbours(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder {str(folder)!r} either (working directory: {str(Path.cwd())!r})."
    names = sorted(p.name for p in folder.iterdir())
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    # what is there under this name is something else
    hint = f"Did you mean {str(folder / close[0])!r}? " if close and path.name not in names else ""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"{hint}{str(folder)!r} holds: {', '.join(names[:10]) or 'nothing'}{more}."


AT_ONCE = 1024
"""Rows that are Python objects at the same time."""


def parquet_rows(path: Path) -> Iterator[Record]:
    """The rows of a Parquet file; a ValueError if it is none, a page is damaged, or two columns have one name."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        table = ParquetFile(path, page_checksum_verification=True)
        names = table.schema_arrow.names
        if repeated := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(f"{str(path)!r} has {names.count(repeated[0])} columns named {repeated[0]!r}: rename all but one")
        rows = chain.from_iterable(batch.to_pylist() for batch in table.iter_batches(batch_size=AT_ONCE))
        for number, row in enumerate(rows, start=1):
            yield f"{path.name} row {number}", row
    except (ArrowException, OSError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(path)!r} cannot be read as Parquet: {error}") from error


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
            for number, line in enumerate(iter(partial(file.readline, LONGEST), ""), start=1):
                if len(line) == LONGEST:
                    raise ValueError(
                        f"{path}:{number}: the line has {LONGEST:,} characters or more, which no row has: write one object per line"
                    )
                yield line
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{str(path)!r} cannot be read as text: {error}") from error


def _json_object(place: str, line: str) -> dict[str, Any]:
    try:
        row = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        wrong = error.msg.removesuffix(" at")
        raise ValueError(f"{place}: not valid JSON: {wrong} at column {error.colno} of {line.strip()[:80]!r}") from error
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
        twice = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
        raise ValueError(f"the key {twice[:80]!r} stands twice in one object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON: write null where there is no number")


_DECODER = json.JSONDecoder(object_pairs_hook=_without_repetition, parse_constant=_refuse)
