"""The contract of every sampler."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

from lightrl.parts.sampler import Sampler
from lightrl.testing.checks.check import BrokenContract, Make, contract_check, expect
from lightrl.testing.checks.state import round_trip
from lightrl.testing.collection import Meeting, ScriptedCollection
from lightrl.types import ScoredRollout

KIND = "sampler"


@contract_check(KIND, "it returns whole groups of one prompt, as many as asked for")
def whole_groups(make: Make[Sampler]) -> None:
    """Every group has `group_size` rows of one prompt."""
    for prompts in (1, 3):
        part = make()
        scored = part.collect(ScriptedCollection(prompts))
        expect(isinstance(scored, ScoredRollout), f"collect() must return a ScoredRollout, got {type(scored).__name__}")
        _check_groups(scored, part.group_size)
        groups = len(torch.unique(scored.group))
        expect(groups == prompts, f"{prompts} prompts were asked for, and there are {groups} groups", group=scored.group)


@contract_check(KIND, "groups with zero variance do not break it")
def zero_variance(make: Make[Sampler]) -> None:
    """Some of the prompts are always right."""
    part = make()
    _check_groups(part.collect(ScriptedCollection(3, zero_variance=[0, 2, 3])), part.group_size)


@contract_check(KIND, "every rank calls draw, rollout, score and total equally often")
def collective(make: Make[Sampler]) -> None:
    """Two ranks, only one of which has groups with zero variance."""
    for zero_variance in ([], [0, 1, 3]):
        meeting, parts = Meeting(2), [make(), make()]
        with ThreadPoolExecutor(2) as pool:
            running = [pool.submit(_collect, part, rank, zero_variance if rank else [], meeting) for rank, part in enumerate(parts)]
        for rank, done in enumerate(running):
            error = done.exception()
            if error is not None:
                raise BrokenContract(f"with prompts {zero_variance} of rank 1 at zero variance, rank {rank} fails: {error}") from error
            _check_groups(done.result(), parts[rank].group_size)


@contract_check(KIND, "its backlog survives a restart")
def history(make: Make[Sampler]) -> None:
    """A new instance that took the state back keeps it."""
    part = make()
    part.collect(ScriptedCollection(3, zero_variance=[1]))
    round_trip(part, make())


def _collect(part: Sampler, rank: int, zero_variance: list[int], meeting: Meeting) -> ScoredRollout:
    try:
        return part.collect(ScriptedCollection(2, zero_variance, rank, meeting))
    finally:
        meeting.leave(rank)


def _check_groups(scored: ScoredRollout, group_size: int) -> None:
    for group in torch.unique(scored.group).tolist():
        rows = (scored.group == group).nonzero()[:, 0].tolist()
        ids = {scored.prompts[i].id for i in rows}
        expect(len(ids) == 1, f"group {group} holds prompts {sorted(ids)}")
        expect(len(rows) == group_size, f"group {group} has {len(rows)} rows, and group_size is {group_size}", group=scored.group)
