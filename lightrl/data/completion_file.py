"""Completions from a file, each with its prompt."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lightrl.data.files import table_rows
from lightrl.data.records import Record, Records
from lightrl.parts.prompts import content_hash
from lightrl.types import JSON, Prompt


class CompletionFile(Records):
    """A file with one row per completion: JSON lines (gzipped or not) or Parquet; rows with the same prompt form a group."""

    def __init__(self, path: str, completion: str = "completion", **kwargs: Any) -> None:
        """
        Args:
            path: the file.
            completion: the column with the completion's text.
            **kwargs: how a row becomes a prompt, see `Records`.

        Raises:
            ValueError: the file cannot be read, has no rows, or a row has no prompt or no completion.
        """
        super().__init__(**kwargs)
        self.path, self.completion = path, completion
        self.rows: list[Mapping[str, JSON]] = []
        """All columns of each row, as they stand in the file."""
        self._read(f"the file {path!r}", self._with_completion(table_rows(path)))

    def prompt(self, index: int) -> Prompt:
        """The prompt of a row, with an id that rows of the same prompt share; the completion is none of its columns."""
        prompt = super().prompt(index)
        columns = {name: value for name, value in prompt.columns.items() if name != self.completion}
        return dataclasses.replace(prompt, id=content_hash(prompt), columns=columns)

    @property
    def completions(self) -> list[str]:
        """The text of each row."""
        return [str(row[self.completion]) for row in self.rows]

    @property
    def finish_reasons(self) -> list[str]:
        """Why each completion ended: the column `finish_reason` if there is one, else `stop`."""
        return [str(row.get("finish_reason") or "stop") for row in self.rows]

    def _with_completion(self, records: Iterable[Record]) -> Iterator[Record]:
        for place, row in records:
            if not isinstance(row.get(self.completion), str):
                got = f"{type(row[self.completion]).__name__} {str(row[self.completion])[:60]!r}" if self.completion in row else "none"
                raise ValueError(f"{place}: the column {self.completion!r} must hold the completion's text, got {got}")
            self.rows.append(row)
            yield place, row
