"""An error that one rank finds in a checkpoint is raised on every rank, so that none waits for the others in vain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from lightrl.strategies.checkpoint_files import CheckpointError, Written, check, written_by


def ranks_now() -> int:
    """Ranks of this run."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def agreed(act: Callable[[], object]) -> None:
    """Do something on every rank; a barrier.

    Raises:
        CheckpointError: it failed on one of them, whose complaint this is.
    """
    complaint = None
    try:
        act()
    except (CheckpointError, OSError) as error:
        complaint = str(error)
    everyone: list[str | None] = [complaint]
    if ranks_now() > 1:
        everyone = [None] * ranks_now()
        torch.distributed.all_gather_object(everyone, complaint)
    for said in everyone:
        if said is not None:
            raise CheckpointError(said)


def check_together(path: Path) -> Written:
    """`check` a checkpoint, each rank its share of a folder's files, with the same outcome on all.

    Raises:
        CheckpointError: a rank found something wrong.
    """
    ranks = ranks_now()
    rank = torch.distributed.get_rank() if ranks > 1 else 0
    agreed(lambda: check(path, slice(rank, None, ranks)) if rank == 0 or path.is_dir() else None)
    return written_by(path)
