"""The contract of every sampler."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from lightrl.testing.collection import Meeting, ScriptedCollection
from lightrl.testing.contracts.check import BrokenContract, Make, contract_check, expect
from lightrl.testing.contracts.common import round_trip
from lightrl.types import ScoredRollout

KIND = "sampler"


@contract_check(KIND, "a batch of informative groups is whole groups of one prompt, as many as asked for")
def whole_groups(make: Make) -> None:
    """Every group has `group_size` rows of one prompt."""
    for prompts in (1, 3):
        part = make()
        scored = part.collect(ScriptedCollection(prompts))
        expect(isinstance(scored, ScoredRollout), f"collect() must return a ScoredRollout, got {type(scored).__name__}")
        _check_groups(scored, part.group_size)
        groups = len(torch.unique(scored.group))
        expect(groups == prompts, f"{prompts} prompts were asked for, and there are {groups} groups", group=scored.group)


@contract_check(KIND, "groups without a signal do not break it")
def dead_groups(make: Make) -> None:
    """Some of the prompts are always right."""
    part = make()
    _check_groups(part.collect(ScriptedCollection(3, zero_variance=[0, 2, 3])), part.group_size)


@contract_check(KIND, "every rank calls draw, rollout, score and total equally often")
def collective(make: Make) -> None:
    """Two ranks, only one of which has groups without a signal."""
    for zero_variance in ([], [0, 1, 3]):
        meeting = Meeting(2)
        parts = [make(), make()]

        def run(rank: int, zero_variance: list[int] = zero_variance, meeting: Meeting = meeting, parts: list[Any] = parts) -> ScoredRollout:
            try:
                found: ScoredRollout = parts[rank].collect(ScriptedCollection(2, zero_variance if rank else [], rank, meeting))
                return found
            finally:
                meeting.leave(rank)

        with ThreadPoolExecutor(2) as pool:
            running = [pool.submit(run, rank) for rank in range(2)]
        for rank, done in enumerate(running):
            error = done.exception()
            if error is not None:
                raise BrokenContract(f"with zero_variance groups {zero_variance} on rank 1, rank {rank} fails: {error}") from error
            _check_groups(done.result(), parts[rank].group_size)


@contract_check(KIND, "its backlog survives a restart")
def history(make: Make) -> None:
    """A new instance that took the state back keeps it."""
    part = make()
    part.collect(ScriptedCollection(3, zero_variance=[1]))
    round_trip(part, make())


def _check_groups(scored: ScoredRollout, group_size: int) -> None:
    for group in torch.unique(scored.group).tolist():
        rows = (scored.group == group).nonzero()[:, 0].tolist()
        ids = {scored.prompts[i].id for i in rows}
        expect(len(ids) == 1, f"group {group} holds prompts {sorted(ids)}")
        expect(len(rows) == group_size, f"group {group} has {len(rows)} rows, and group_size is {group_size}", group=scored.group)
