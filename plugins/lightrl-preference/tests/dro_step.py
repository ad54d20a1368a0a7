"""One step of plain SGD in float64 of DRO, with the value of a group or a critic's.

    python dro_step.py NAME RANKS FILE

takes it on so many ranks, each of which has its share of the same rows, and writes its gradient to FILE.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from lightrl_preference import DRO, DROV
from lightrl_workshop import gradient_of_step, random_rollout
from torch import Tensor

from lightrl import Algorithm, GroupSampler, Rollout, TinyPolicy, ValueHead

SOURCE = TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64")
ALGORITHMS: dict[str, Callable[[], Algorithm]] = {
    "group": lambda: DRO(old_logprobs="rollout"),
    # on the policy's trunk, which the value's error moves too
    "critic": lambda: DROV(sampler=GroupSampler(4), critic=ValueHead(learning_rate=1.0), old_logprobs="rollout"),
}


def gradient(name: str, rows: Rollout | None = None, budget: int | None = None, ranks: int = 1) -> Tensor:
    """Of one step on some rows, by default sixteen random ones."""
    torch.manual_seed(3)  # of the critic's head
    return gradient_of_step(ALGORITHMS[name](), rows or random_rollout(SOURCE.build()), SOURCE, budget, ranks)


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = gradient(sys.argv[1], ranks=int(sys.argv[2]))
    if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
        torch.save(found, sys.argv[3])
