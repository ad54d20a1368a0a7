"""The rows of a Parquet file; pages that have checksums are compared with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightrl.data.records import Record

AT_ONCE = 1024
"""Rows that are Python objects at the same time."""


def parquet_rows(path: Path) -> Iterator[Record]:
    """The rows of a Parquet file.

    Raises:
        ValueError: it is not Parquet, a page of it is damaged, or two of its columns have one name.
    """
    number = 0
    for rows in _batches(path):
        for row in rows:
            number += 1
            yield f"{path.name} row {number}", row


def _batches(path: Path) -> Iterator[list[dict[str, Any]]]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        table = ParquetFile(path, page_checksum_verification=True)
        _refuse_repeated(path, table.schema_arrow.names)
        for batch in table.iter_batches(batch_size=AT_ONCE):
            yield batch.to_pylist()
    except (ArrowException, OSError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(path)!r} cannot be read as Parquet: {error}") from error


def _refuse_repeated(path: Path, names: list[str]) -> None:
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{str(path)!r} has {names.count(repeated[0])} columns named {repeated[0]!r}: rename all but one")
