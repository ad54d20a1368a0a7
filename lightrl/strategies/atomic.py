"""Files and folders that appear whole or not at all, even if the process is killed while it writes them.

What is being written has a name of its own beside the place it will have: `x.ckpt.partial-HOST-PID`. A folder that is being replaced
or removed is first renamed to `.replaced-` or `.removed-`, so that nothing half deleted keeps the name of something whole.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from pathlib import Path

_LEFT = re.compile(r"^(?P<name>.+)\.(?P<what>partial|replaced|removed)-(?P<host>.+)-(?P<pid>\d+)$")


def partial(path: Path) -> Path:
    """Where this process writes what will be `path`; nothing is there."""
    place = beside(path, "partial")
    _delete(place)
    return place


def publish(written: Path, path: Path) -> None:
    """Give what was written to `partial(path)` its name, in place of what had it.

    Args:
        written: a file or folder on the same file system.
        path: its name from now on.
    """
    for file in [written, *(p for p in written.rglob("*"))] if written.is_dir() else [written]:
        _to_disk(file)
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


def remove(path: Path) -> None:
    """Delete a file or folder that never looks whole while it is half deleted."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    gone = beside(path, "removed")
    path.rename(gone)
    _delete(gone)


def recover(folder: Path, below: bool = False) -> None:
    """Undo what killed processes of this machine left half done in a folder.

    Args:
        folder: what does not exist is passed over.
        below: in the folders inside it too.
    """
    if not folder.is_dir():
        return
    for left in sorted(folder.rglob("*-*") if below else folder.glob("*-*")):
        found = _LEFT.match(left.name)
        if found is None or not left.exists() or _alive(found["host"], int(found["pid"])):
            continue
        original = left.with_name(found["name"])
        if found["what"] == "replaced" and not original.exists():
            left.rename(original)
        else:
            _delete(left)


def beside(path: Path, what: str) -> Path:
    """A name of this process's own beside a path; `what` is `partial`, `replaced` or `removed`."""
    return path.with_name(f"{path.name}.{what}-{socket.gethostname()}-{os.getpid()}")


def _alive(host: str, pid: int) -> bool:
    # of another machine nothing is known; a name with our own number was left by an earlier process that had it
    if host != socket.gethostname():
        return True
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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
