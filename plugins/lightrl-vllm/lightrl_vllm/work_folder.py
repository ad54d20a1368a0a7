"""The folder of one start of the engine: weights while they are needed, and the log of a server of its own."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

LOG = "vllm.log"
READABLE = 0o755
"""Servers may belong to another user."""


def work_folder(parent: str) -> Path:
    """A new folder inside another one, named after the time.

    Args:
        parent: made if it is not there.
    """
    above = Path(parent).expanduser().resolve()
    above.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=above))
    folder.chmod(READABLE)
    return folder


def clear(folder: Path) -> None:
    """Delete the weights in it, and the folder itself if no log is left.

    Args:
        folder: from `work_folder`.
    """
    for weights in [path for path in folder.iterdir() if path.name != LOG]:
        shutil.rmtree(weights)
    if not (folder / LOG).exists():
        folder.rmdir()
