"""Files and folders that appear whole or not at all, even if the process is killed while it writes them.

What is being written has a name of its own beside the place it will have: `x.ckpt.partial-HOST-PID`. A folder that is being replaced
or removed is first renamed to `.replaced-` or `.removed-`, so that nothing half deleted keeps the name of something whole. A process that
has written in a folder shares a lock of it until it ends: to another container, the number of a process says nothing.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import socket
from dataclasses import dataclass, field
from pathlib import Path

from lightrl.strategies.disk import in_words, size_of

_LEFT = re.compile(r"^(?P<name>.+)\.(?P<what>partial|replaced|removed)-(?P<host>.+)-(?P<pid>\d+)$")

_HELD: dict[Path, int] = {}
"""Folders in which this process has written, open and locked."""


def partial(path: Path) -> Path:
    """Where this process writes what will be `path`; nothing is there."""
    _hold(path.parent)
    place = beside(path, "partial")
    _delete(place)
    return place


def publish(written: Path, path: Path) -> None:
    """Give what was written to `partial(path)` its name, in place of what had it. `written`: a file or folder on the same file system."""
    for file in [written, *(p for p in written.rglob("*"))] if written.is_dir() else [written]:
        _to_disk(file)
    _hold(path.parent)
    if path.is_dir() and not path.is_symlink():
        old = beside(path, "replaced")
        path.rename(old)
        written.rename(path)
        _to_disk(path.parent)
        _delete(old)
        return
    if written.is_dir() and (path.is_symlink() or path.exists()):
        path.unlink()
    written.replace(path)
    _to_disk(path.parent)


def name_again(path: Path, other: Path) -> bool:
    """Give a file or folder another name beside it, without a copy of its bytes; False if the file system has no such names."""
    written = partial(other)
    try:
        if path.is_dir():
            shutil.copytree(path, written, copy_function=os.link)
        else:
            written.hardlink_to(path)
    except OSError:
        _delete(written)
        return False
    publish(written, other)
    return True


def remove(path: Path) -> None:
    """Delete a file or folder that never looks whole while it is half deleted."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    _hold(path.parent)
    gone = beside(path, "removed")
    path.rename(gone)
    _delete(gone)


@dataclass
class Leftovers:
    """Half-written files in a folder, with their bytes."""

    removed: dict[Path, int] = field(default_factory=dict)
    """Of killed processes of this machine; it is gone."""
    elsewhere: dict[Path, int] = field(default_factory=dict)
    """Of other machines, of whose processes nothing is known; it is still there."""


def recover(folder: Path, below: bool = False) -> Leftovers:
    """Undo what killed processes of this machine left half done in a folder, unless another process writes there.

    Args:
        folder: what does not exist is passed over.
        below: in the folders inside it too.
    """
    leftovers = Leftovers()
    for left in sorted(folder.rglob("*-*") if below else folder.glob("*-*")) if folder.is_dir() else []:
        found = _LEFT.match(left.name)
        if found is None or not left.exists():
            continue
        if found["host"] != socket.gethostname():
            leftovers.elsewhere[left] = size_of(left)
        elif not _alive(int(found["pid"])) and _unwritten(left.parent):
            original = left.with_name(found["name"])
            if found["what"] == "replaced" and not original.exists():
                left.rename(original)
            else:
                leftovers.removed[left] = size_of(left)
                _delete(left)
    return leftovers


def beside(path: Path, what: str) -> Path:
    """A name of this process's own beside a path; `what` is `partial`, `replaced` or `removed`."""
    return path.with_name(f"{path.name}.{what}-{socket.gethostname()}-{os.getpid()}")


def _alive(pid: int) -> bool:
    # a name with our own number was left by an earlier process that had it
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _hold(folder: Path) -> None:
    """Say to every other process that this one writes in a folder that exists, until it ends."""
    if folder.is_dir() and _held(folder) is None:
        _HELD[folder] = os.open(folder, os.O_RDONLY)
        _lock(_HELD[folder], fcntl.LOCK_SH)


def _held(folder: Path) -> int | None:
    """The handle by which this process holds a folder; None for another folder that had its name, which may be relative."""
    held = _HELD.get(folder)
    return held if held is not None and os.path.samestat(os.fstat(held), folder.stat()) else None


def _unwritten(folder: Path) -> bool:
    """Whether no other process holds a folder; without locks that is unknown, and the folder is left alone."""
    held = _held(folder)
    handle = os.open(folder, os.O_RDONLY) if held is None else held
    alone = _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if held is None:
        os.close(handle)
    else:
        _lock(held, fcntl.LOCK_SH)
    return alone


def _lock(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how)
    except OSError:
        return False
    return True


def _let_go() -> None:
    while _HELD:
        os.close(_HELD.popitem()[1])


# a worker may outlive the run that has forked it
os.register_at_fork(after_in_child=_let_go)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


log = logging.getLogger(__name__)


def tidy(folder: Path, below: bool = False) -> None:
    """Undo what killed processes left half done in a folder, and say what that was."""
    found = recover(folder, below)
    if found.removed:
        total = in_words(sum(found.removed.values()))
        log.warning("removed %s that killed runs have left unfinished below %r", total, str(folder))
    for path, size in found.elsewhere.items():
        log.warning("%r (%s) was left unfinished on another machine: delete it if no run is writing it there", str(path), in_words(size))
