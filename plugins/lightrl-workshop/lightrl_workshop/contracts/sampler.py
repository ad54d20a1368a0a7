"""The contract of every sampler."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from lightrl.parts.sampler import Sampler
from lightrl.types import ScoredRollout
from lightrl_workshop.checks.check import BrokenContract, Make, contract_check, expect, round_trip, same_state
from lightrl_workshop.collection import ScriptedCollection
from lightrl_workshop.experience import learnt_from
from lightrl_workshop.ranks import Meeting, on_ranks

KIND = "sampler"


@contract_check(KIND, "it returns whole groups of one prompt, as many as asked for")
def whole_groups(make: Make[Sampler]) -> None:
    for prompts in (1, 3):
        part = make()
        scored = part.collect(ScriptedCollection(prompts))
        expect(isinstance(scored, ScoredRollout), f"collect() must return a ScoredRollout, got {type(scored).__name__}")
        _check_groups(scored, part.group_size)
        groups = len(torch.unique(scored.group))
        expect(groups == prompts, f"{prompts} prompts were asked for, and there are {groups} groups", group=scored.group)


@contract_check(KIND, "it says whether the policy has sampled all of its rows")
def says_what_is_given(make: Make[Sampler]) -> None:
    """Rows of `Collection.given` have no log-probs yet."""
    part = make()
    given = part.collect(ScriptedCollection(3)).rollout_logprobs.isnan().any()
    expect(not given or not part.samples_all, "some rows are given, and it does not say samples_all = False")


@contract_check(KIND, "groups with zero variance do not break it")
def zero_variance(make: Make[Sampler]) -> None:
    part = make()
    _check_groups(part.collect(ScriptedCollection(3, zero_variance=[0, 2, 3])), part.group_size)


@contract_check(KIND, "every rank calls draw, rollout, score, total and gather equally often")
def collective(make: Make[Sampler]) -> None:
    for zero_variance in ([], [0, 1, 3]):
        parts = [make(), make()]
        for part, scored in zip(parts, _collect_on_two(parts, zero_variance), strict=True):
            _check_groups(scored, part.group_size)


@contract_check(KIND, "no prompt is completed on two ranks at once")
def apart(make: Make[Sampler]) -> None:
    """In one rollout, and in the next one, for which it may remember prompts: their completions would be the same ones."""
    parts = [make(), make()]
    for _ in range(2):
        one, other = found = _collect_on_two(parts, [1])
        twice = sorted({prompt.id for prompt in one.prompts} & {prompt.id for prompt in other.prompts})
        expect(not twice, f"both ranks complete the prompts {twice}")
        _commit(parts, found)


@contract_check(KIND, "what it remembers is the same on every rank")
def shared(make: Make[Sampler]) -> None:
    parts = [make(), make()]
    _commit(parts, _collect_on_two(parts, [1]))
    one, other = (part.state_dict() for part in parts)
    expect(parts[0].state_per_rank or same_state(one, other), "its state differs after commit()", rank_0=one, rank_1=other)


@contract_check(KIND, "what it remembers survives a restart")
def history(make: Make[Sampler]) -> None:
    part, again = make(), make()
    _commit([part], [part.collect(ScriptedCollection(3, zero_variance=[1]))])
    round_trip(part, again)
    here, there = ([prompt.id for prompt in one.collect(ScriptedCollection(3)).prompts] for one in (part, again))
    expect(here == there, "a new instance that took the state back completes other prompts", given=here, restarted=there)


def _collect_on_two(parts: Sequence[Sampler], zero_variance: list[int]) -> list[ScoredRollout]:
    """The rows of each rank; prompts with these numbers have zero variance, but only those of the second one."""
    meeting = Meeting(2)
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(_collect, part, rank, zero_variance if rank else [], meeting) for rank, part in enumerate(parts)]
    for rank, done in enumerate(running):
        error = done.exception()
        if error is not None:
            raise BrokenContract(f"with prompts {zero_variance} of rank 1 at zero variance, rank {rank} fails: {error}") from error
    return [done.result() for done in running]


def _commit(parts: Sequence[Sampler], scored: Sequence[ScoredRollout]) -> None:
    on_ranks(len(parts), lambda rank, ranks: parts[rank].commit(learnt_from(scored[rank]), ranks))


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
