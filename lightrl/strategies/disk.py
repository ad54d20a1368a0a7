"""Sizes on a disk, and its errors: full, or a file refused, with the place, the size that was needed and the size that is free."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""No room: on the disk, in the quota, in one file."""
CLOSED = {errno.EROFS, errno.EACCES, errno.EPERM}
"""No user, or not this one, may write or read there."""
PROBE = 4 * 2**20
"""Bytes that are written to find out whether there is room, after a library has failed that gives no reason, as torch does."""
_NUMBERED = re.compile(r"\(os error (\d+)\)")
"""How safetensors gives the reason."""


class DiskError(OSError):
    """The disk did not take what was to be written; the message says where and how much."""


@contextmanager
def onto_disk(path: Path, needed: int | None = None) -> Iterator[None]:
    """Within, what the disk refuses is an error that says so, whichever library was writing.

    Args:
        needed: bytes that it will have, about; None: unknown.

    Raises:
        DiskError: there is no room, or nothing may be written there.
    """
    try:
        yield
    except DiskError:
        raise
    except Exception as error:
        if (number := _number(error) or _found_by_probe(error, path)) is None:
            raise
        raise DiskError(_sentence(path, number, needed)) from error


@contextmanager
def below(folder: Path) -> Iterator[None]:
    """Within, an error of the disk that does not say where it was is a DiskError of this folder."""
    try:
        yield
    except OSError as error:
        told = refusal_of_disk(error, folder)
        if told is None:
            raise
        raise DiskError(told) from error


def refuse_closed(folder: Path) -> None:
    """Raise DiskError if a folder cannot be made or written to; nothing is left in it."""
    try:
        with tempfile.TemporaryDirectory(dir=_standing(folder)):
            pass
    except OSError as error:
        raise DiskError(_sentence(folder, error.errno if error.errno in FULL else errno.EACCES, None)) from error


def refusal_of_disk(error: OSError, folder: Path | None = None) -> str | None:
    """A message about an error of the disk, in at most three lines; None for any other error.

    Args:
        folder: where it was if it does not say so itself; None: the working directory.
    """
    if isinstance(error, DiskError):
        return str(error)
    number = _number(error)
    place = (folder or Path.cwd()) if error.filename is None else Path(os.fsdecode(error.filename))
    return None if number is None else _sentence(place, number, None)


def _number(error: Exception) -> int | None:
    numbered = _NUMBERED.search(str(error))
    number = error.errno if isinstance(error, OSError) else int(numbered[1]) if numbered else None
    # without a path, who refused was not the disk
    refused = FULL if isinstance(error, OSError) and error.filename is None else FULL | CLOSED
    return number if number in refused else None


def _found_by_probe(error: Exception, path: Path) -> int | None:
    if not isinstance(error, RuntimeError):
        return None
    try:
        with tempfile.TemporaryFile(dir=_standing(path)) as probe:
            probe.write(bytes(PROBE))
    except OSError as refused:
        return _number(refused)
    return None


def _standing(path: Path) -> Path:
    """The path itself if it is a folder, or the nearest one around it that is there."""
    around = [path.absolute(), *path.absolute().parents]
    return next((folder for folder in around if folder.is_dir()), Path("/"))


def _sentence(path: Path, number: int, needed: int | None) -> str:
    why = os.strerror(number)
    if number in CLOSED:
        return f"{str(path)!r}: {why}. Give a place where you may write: --trainer.default_root_dir FOLDER for a run, --out for what else"
    disk = shutil.disk_usage(_standing(path))
    wanted = "" if needed is None else f"it needs about {in_words(needed)}, and "
    return (
        f"{str(path)!r} cannot be written: {why}; {wanted}{in_words(disk.free)} of {in_words(disk.total)} are free there.\n"
        "What was written before is whole. Make room and type the same command again; a run goes on with --ckpt_path last"
    )


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file() and not p.is_symlink()]
    return sum(file.stat().st_size for file in files)


def in_words(size: int) -> str:
    """Bytes with a unit, three digits."""
    power = min(max(size.bit_length() - 1, 0) // 10, 4)
    return f"{size / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
