"""Lines of a table that take no memory."""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Callable
from pathlib import Path

from lightrl.strategies.disk import below

AT_ONCE = 1024
"""Lines that are written together."""


class StoredLines:
    """Lines in a temporary file without a name, which the system removes when the process ends.

    They are read, not mapped, so that they never count as memory of the process; the system keeps what it has room for.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.gettempdir())
        with below(self._folder):
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        weakref.finalize(self, self._file.close)
        self._ends, self._waiting = array("Q", [0]), list[bytes]()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, line: bytes) -> None:
        """Add a line; a DiskError, also where one is read, if the folder of temporary files (`TMPDIR`) has no room."""
        self._waiting.append(line)
        self._ends.append(self._ends[-1] + len(line))
        if len(self._waiting) == AT_ONCE:
            self._write()

    def __getitem__(self, index: int) -> bytes:
        if not 0 <= index < len(self):
            raise IndexError(index)
        if self._waiting:
            self._write()
        start, end = self._ends[index], self._ends[index + 1]
        # does not move a position that processes may share
        return os.pread(self._file.fileno(), end - start, start)

    def __reduce__(self) -> tuple[Callable[[list[bytes]], StoredLines], tuple[list[bytes]]]:
        """A copy, in this process or another, has a file of its own."""
        return _stored, ([self[i] for i in range(len(self))],)

    def _write(self) -> None:
        with below(self._folder):
            self._file.write(b"".join(self._waiting))
            self._file.flush()
        self._waiting.clear()


def _stored(lines: list[bytes]) -> StoredLines:
    found = StoredLines()
    for line in lines:
        found.append(line)
    return found
