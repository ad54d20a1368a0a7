"""A file of JSON lines that takes long to write: after an interruption the same command continues it."""

from __future__ import annotations

import io
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Column, Table

from lightrl.config.read.refusals import ConfigError
from lightrl.strategies.atomic import partial, publish


class ResumableRows:
    """Rows on their way into a file, which has its name when all are there.

    Until then they stand in `FILE.unfinished`, and `FILE.progress` says how far they go and for which command. Rows that were written
    after the last note of progress are cut off and made again.
    """

    def __init__(self, out: str, request: Mapping[str, Any]) -> None:
        """
        Args:
            out: the file.
            request: all that its rows depend on; what stands under `rewards` may differ from the note's, and is then said.

        Raises:
            ConfigError: the file is there already, or was begun by another command.
        """
        self.path_given, self.path = out, Path(out).expanduser()
        if self.path.exists():
            raise ConfigError("--out", f"{out!r} is there already, and nothing is overwritten.", "Name another file, or delete it.")
        self.rows_path, self.progress_path = (self.path.with_name(f"{self.path.name}.{what}") for what in ("unfinished", "progress"))
        self.request: dict[str, Any] = json.loads(json.dumps(request, sort_keys=True, default=str))
        self.done = 0
        """Steps of the work that are over."""
        self.state: Any = None
        """The state of engine and rewards in the last note."""
        self.changed = ""
        """The keys at which the rewards differ from the note's, whose limits may have been raised; empty if none."""
        self.counts: defaultdict[str, float] = defaultdict(int)
        """Numbers summed over the steps that are over."""
        self._begin(out)

    def carry_out(
        self, work: Callable[[], None], report: Callable[[], Mapping[str, float | str]], kept: str, rows: str, nothing: str
    ) -> int:
        """Do the work, print a table of its counts, and give the file its name if a row stands in it.

        Args:
            work: goes on from `done` prompts, and adds rows.
            report: gives the lines of the table.
            kept: which of the counts is that of the rows.
            rows: the word for the rows.
            nothing: the sentence if there are none.

        Returns:
            The exit status: 0; 1 if there is no row, and no file; 130 if it was interrupted, and can go on.
        """
        try:
            if self.done:
                sys.stderr.write(f"{self.done:,} prompts are done: going on with the next one.\n")
            if self.changed:
                sys.stderr.write(f"The rewards are not those that the file was begun with: {self.changed}.\n")
            work()
        except KeyboardInterrupt:
            sys.stderr.write(f"Interrupted: {self.done:,} prompts are done and kept. The same command goes on with the next one.\n")
            return 130
        finally:
            self._file.close()
        table = Table("", Column(justify="right"), show_header=False, box=None)
        for name, value in report().items():
            table.add_row(name, value if isinstance(value, str) else f"{value:,.0f}")
        Console().print(table)
        if self.counts[kept]:
            publish(self.rows_path, self.path)
            sys.stdout.write(f"{int(self.counts[kept]):,} {rows}: {self.path_given}\n")
        else:
            self.rows_path.unlink(missing_ok=True)
            sys.stderr.write(f"{nothing}, and no file is written.\n")
        self.progress_path.unlink(missing_ok=True)
        return 0 if self.counts[kept] else 1

    def add(self, rows: Iterable[Mapping[str, Any]], steps: int, counts: Mapping[str, float], state: Mapping[str, object]) -> None:
        """Write the rows of further steps, and note that they are there.

        Args:
            rows: JSON values.
            steps: how many they are of.
            counts: added to those so far.
            state: tensors and JSON values with which the work goes on.
        """
        self._file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
        self._file.flush()
        os.fsync(self._file.fileno())
        self.done, self.state = self.done + steps, state
        for name, count in counts.items():
            self.counts[name] += count
        content, written, counts = io.BytesIO(), self._file.tell(), dict(self.counts)
        torch.save({"request": self.request, "done": self.done, "bytes": written, "counts": counts, "state": state}, content)
        place = partial(self.progress_path)
        place.write_bytes(content.getvalue())
        publish(place, self.progress_path)

    def _begin(self, out: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.progress_path.exists():
            note = self._note(out)
            self.done, self.state = int(note["done"]), note["state"]
            self.counts.update(note["counts"])
            self._file = self.rows_path.open("r+b")
            self._file.truncate(int(note["bytes"]))
            self._file.seek(0, os.SEEK_END)
        else:
            self._file = self.rows_path.open("w+b")

    def _note(self, out: str) -> Any:
        try:
            note = torch.load(self.progress_path, weights_only=True)
            size = self.rows_path.stat().st_size
        except Exception as error:
            raise ConfigError("--out", f"{str(self.progress_path)!r} cannot be read: {error}".splitlines()[0], self._delete()) from error
        if size < note["bytes"]:
            raise ConfigError("--out", f"{str(self.rows_path)!r} is shorter than it was.", self._delete())
        old, new = ({name: value for name, value in one.items() if name != "rewards"} for one in (note["request"], self.request))
        self.changed = differing(note["request"].get("rewards"), self.request.get("rewards"), "rewards")
        if differs := differing(old, new):
            problem = f"{out!r} was begun by a command with other settings: {differs}."
            raise ConfigError("--out", problem, f"Give those, or: {self._delete()}")
        return note

    def _delete(self) -> str:
        return f"To begin anew, delete {str(self.progress_path)!r} and {str(self.rows_path)!r}."


def differing(old: object, new: object, key: str = "") -> str:
    """The first few keys at which two JSON values differ, with both values."""
    found = _differing(old, new, key)
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _differing(old: object, new: object, key: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        names = sorted({*old, *new})
        return [d for name in names for d in _differing(old.get(name), new.get(name), f"{key}.{name}" if key else str(name))]
    return [] if old == new else [f"{key} was {old!r:.60} and is {new!r:.60}"]
