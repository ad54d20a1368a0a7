"""Dynamic sampling: prompts are drawn until the batch is full of groups with some variance."""

import logging
import math
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor

from lightrl import Collection, Prompt, RunEndedError, Sampler, ScoredRollout, deciding_reward, group_statistics, metric_of


class Verdict(Enum):
    """The scores of a group by one reward."""

    SOME_VARIANCE = "some_variance"
    """Its largest and smallest scores differ."""
    ALL_RIGHT = "all_right"
    """All scores are equal and above 0."""
    ALL_WRONG = "all_wrong"
    """All scores are equal and at most 0."""
    UNSCORABLE = "unscorable"
    """Fewer than two rows have a score."""


def verdicts(scored: ScoredRollout, metric: Tensor) -> dict[int, Verdict]:
    """The verdict on every group, by its number, in ascending order; only scorable rows with a score count."""
    valid = scored.scorable & ~metric.isnan()
    statistics = group_statistics(metric, scored.group, valid)
    found = {}
    for number in torch.unique(scored.group).tolist():
        row = int((scored.group == number).nonzero()[0])
        if statistics.count[row] < 2:
            found[number] = Verdict.UNSCORABLE
        elif not statistics.zero_variance[row]:
            found[number] = Verdict.SOME_VARIANCE
        else:
            found[number] = Verdict.ALL_RIGHT if statistics.mean[row] > 0 else Verdict.ALL_WRONG
    return found


log = logging.getLogger(__name__)

REMIND = 10
"""Every so many rounds a rollout that is still not full says so."""


class DynamicSampler(Sampler):
    """Draws and completes prompts until the batch of every rank is full of groups with some variance.

    A group has some variance if max - min > 0 (beyond float noise) over its scorable rows of one raw reward. The first round
    completes `oversampling` times the prompts that are missing. Later rounds divide the number of missing prompts by the share of groups
    that had some variance so far. A prompt is drawn once per data epoch, whether its group is kept or not.

    Source: Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.2, eq. 11, algorithm 1.
    """

    state_per_rank = True

    def __init__(
        self,
        group_size: Annotated[int, Ge(2), Le(2**16)] = 8,
        metric: str | None = None,
        oversampling: Annotated[float, Ge(1), Le(1000)] = 1.0,
        max_rounds: int = 10,
        zero_variance: Literal["replace", "resample", "down_weight"] = "replace",
        attempts: Annotated[int, Ge(2), Le(1000)] = 3,
        factor: Annotated[float, Ge(0), Le(1)] = 0.0,
        exhausted: Literal["raise", "partial", "skip"] = "raise",
        surplus: Literal["drop", "carry"] = "drop",
        slices: Annotated[int, Ge(1)] = 1,
    ) -> None:
        """
        Args:
            group_size: completions per prompt; at least 2.
            metric: name of the raw reward that decides; null: the only one.
            oversampling: prompts of the first round as a multiple of what is missing, and the most of any round as a multiple of
                the batch; at least 1.
            max_rounds: rounds of completions per rollout; 0 or less: no limit.
            zero_variance: `replace` such a group by that of another prompt; `resample` the same prompt, which is replaced after
                `attempts`; `down_weight` keeps it, and its tokens count `factor` in the loss and its denominators.
            attempts: groups that are sampled of a prompt under `resample`, the first one included; prompts that are left when the
                batch is full come first in the next rollout. At least 2.
            factor: under `down_weight`, in [0, 1]: 0 masks the group. Aggregations that divide by a row's own weights
                (`SequenceMean`, `SequenceSumTokenMean`) take any factor above 0 as 1.
            exhausted: after the last round `raise` an error, train on the `partial` batch, or `skip` the optimizer steps.
            surplus: `drop` groups with some variance beyond the batch, or `carry` them into the next rollout, as off-policy rows
                with the log-probs and the `policy_version` they were sampled with.
            slices: parts in which each round's prompts are completed, slow rewards of one part running while the next is generated;
                no influence on what is sampled. At least 1.

        Raises:
            ValueError: an argument outside its range.
        """
        self.group_size, self.metric, self.oversampling, self.max_rounds = group_size, metric, oversampling, max_rounds
        self.zero_variance, self.attempts, self.factor = zero_variance, attempts, factor
        self.exhausted, self.surplus, self.slices = exhausted, surplus, slices
        self._carried: ScoredRollout | None = None
        self._pending: list[tuple[Prompt, int]] = []

    def check(self, rewards: Sequence[str]) -> None:
        """See `Sampler.check`: `metric` names one reward."""
        deciding_reward(rewards, self.metric)

    def collect(self, collection: Collection) -> ScoredRollout:
        """See `Sampler.collect`.

        Raises:
            RunEndedError: the batch is not full after `max_rounds`, and `exhausted` is `raise`.
            ValueError: `metric` does not name one reward.
        """
        kept = [] if self._carried is None else [self._carried]
        tally = Counter(kept=sum(_groups(part) for part in kept))
        tally["carried"] = tally["kept"]
        full = False
        while not (full := collection.total(_missing(collection, tally)) == 0) and not self._last_round(tally):
            kept.append(self._round(collection, tally))
        if not full and self.exhausted == "raise":
            raise RunEndedError(self._complaint(collection, tally))
        return self._batch(collection, kept, tally, 0 if not full and self.exhausted == "skip" else collection.prompts)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {}
        if self._carried is not None and len(self._carried):
            state["carried"] = self._carried.to_state()
        if self._pending:
            state["pending"] = [[prompt.to_json(), tried] for prompt, tried in self._pending]
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._carried = ScoredRollout.from_state(state["carried"]) if "carried" in state and self.surplus == "carry" else None
        self._pending = [(Prompt.from_json(prompt), tried) for prompt, tried in state.get("pending", [])]

    def _round(self, collection: Collection, tally: Counter[str]) -> ScoredRollout:
        """Complete and score some prompts of this rank, perhaps none; the rows of the groups that are kept."""
        size = self._size(_missing(collection, tally), collection.prompts, tally)
        again, self._pending = self._pending[:size], self._pending[size:]
        asked = [*again, *((prompt, 0) for prompt in collection.draw(size - len(again)))]
        scored = collection.rollout_and_score([prompt for prompt, _ in asked], self.group_size, self.slices)
        self._must_fit(scored)
        metric = metric_of(scored, self.metric)
        collection.report("sampling/metric", metric[scored.scorable], "mean")
        found = verdicts(scored, metric)
        for (prompt, tried), verdict in zip(asked, found.values(), strict=True):
            if self.zero_variance == "resample" and verdict is not Verdict.SOME_VARIANCE and tried + 1 < self.attempts:
                self._pending.append((prompt, tried + 1))
        differing = [number for number, verdict in found.items() if verdict is Verdict.SOME_VARIANCE]
        tally.update(verdict.value for verdict in found.values())
        tally.update(rounds=1, prompts=len(asked), resampled=len(again))
        keeps_all = self.zero_variance == "down_weight"
        if keeps_all:
            of_signal = torch.isin(scored.group, torch.tensor(differing, dtype=torch.long, device=scored.group.device))
            scored.row_weight = torch.where(of_signal, 1.0, self.factor)
        chosen = list(found) if keeps_all else differing
        tally.update(kept=len(chosen))
        return of_groups(scored, chosen)

    def _batch(self, collection: Collection, kept: list[ScoredRollout], tally: Counter[str], most: int) -> ScoredRollout:
        """The first groups as this rank's batch; the others are carried or dropped, and everything is counted."""
        everything = ScoredRollout.concat_groups([part.to(kept[-1].group.device) for part in kept])
        numbers = list(range(_groups(everything)))
        beyond = of_groups(everything, numbers[most:])
        self._carried = beyond if self.surplus == "carry" and len(beyond) else None
        zero_variance = tally["all_right"] + tally["all_wrong"]
        lost = "down_weighted" if self.zero_variance == "down_weight" else "dropped"
        collection.report("sampling/rounds", tally["rounds"], "max")
        for name, count in {
            "kept": len(numbers[:most]),
            "surplus": len(numbers[most:]),
            f"{lost}_zero_variance": zero_variance,
            f"{lost}_all_right": tally["all_right"],
            f"{lost}_all_wrong": tally["all_wrong"],
            f"{lost}_unscorable": tally["unscorable"],
            **{name: tally[name] for name in ("prompts", "resampled", "carried")},
        }.items():
            collection.report(f"sampling/{name}", count)
        return of_groups(everything, numbers[:most])

    def _size(self, missing: int, batch: int, tally: Counter[str]) -> int:
        likely = (tally["some_variance"] + 1) / (tally["prompts"] + 1)
        return min(math.ceil(self.oversampling * missing / likely), math.ceil(self.oversampling * batch))

    def _last_round(self, tally: Counter[str]) -> bool:
        rounds = tally["rounds"]
        if rounds and rounds % REMIND == 0 and self.max_rounds <= 0:
            log.warning(
                "dynamic sampling: %d rounds, %d prompts, %d groups with some variance so far", rounds, tally["prompts"], tally["kept"]
            )
        return 0 < self.max_rounds <= rounds

    def _must_fit(self, scored: ScoredRollout) -> None:
        now = sorted(scored.reward_parts)
        then = now if self._carried is None else sorted(self._carried.reward_parts)
        if then != now:
            raise ValueError(
                f"groups carried over from an earlier rollout were scored by {', '.join(then)}, and the rewards are now {', '.join(now)}: "
                "resume with the same rewards, or set algorithm.sampler.surplus to drop"
            )

    def _complaint(self, collection: Collection, tally: Counter[str]) -> str:
        wanted = int(collection.total(collection.prompts))
        of = {name: int(collection.total(tally[name])) for name in ("kept", "prompts", "all_right", "all_wrong", "unscorable")}
        return (
            f"dynamic sampling found {of['kept']} of {wanted} groups with some variance in {tally['rounds']} rounds: of {of['prompts']} "
            f"prompts {of['all_right']} were all right, {of['all_wrong']} all wrong, and {of['unscorable']} had fewer than two scorable "
            "rows. Choose prompts nearer to what the policy can do, raise algorithm.sampler.group_size, oversampling or max_rounds (0: no "
            "limit), or set exhausted to partial or skip"
        )


def _missing(collection: Collection, tally: Counter[str]) -> int:
    return max(0, collection.prompts - tally["kept"])


def _groups(scored: ScoredRollout) -> int:
    return len(torch.unique(scored.group))


def of_groups(scored: ScoredRollout, groups: list[int]) -> ScoredRollout:
    """The rows of these groups, in this order of groups, which are renumbered from 0; without padding that none of them needs."""
    rows = [(scored.group == number).nonzero()[:, 0] for number in groups]
    chosen = scored.select(torch.cat(rows) if rows else [])
    numbers = [torch.full_like(index, i) for i, index in enumerate(rows)]
    chosen.group = torch.cat(numbers).to(scored.group) if numbers else chosen.group
    return chosen.padded(max(int(chosen.lengths.max()), 1)) if len(chosen) else chosen
