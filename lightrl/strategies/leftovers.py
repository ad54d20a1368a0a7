"""Files that killed runs left half written: they are removed, or named with its size where another machine may still write it."""

from __future__ import annotations

import logging
from pathlib import Path

from lightrl.strategies.atomic import recover
from lightrl.strategies.byte_size import in_words

log = logging.getLogger(__name__)


def tidy(folder: Path, below: bool = False) -> None:
    """Undo what killed processes left half done in a folder, and say what that was.

    Args:
        folder: what does not exist is passed over.
        below: in the folders inside it too.
    """
    found = recover(folder, below)
    if found.removed:
        total = in_words(sum(found.removed.values()))
        log.warning("removed %s that killed runs have left unfinished below %r", total, str(folder))
    for path, size in found.elsewhere.items():
        log.warning("%r (%s) was left unfinished on another machine: delete it if no run is writing it there", str(path), in_words(size))
