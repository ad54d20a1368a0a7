"""Objectives of labelled completions on pairs."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from lightrl import LabelledObjective, Likelihood, PairObjective, WithStatistics
from lightrl_preference.labelled import BCO


class LabelledPairs(PairObjective):
    """An objective of labelled completions on pairs: the better completion is good, and the worse one bad.

    loss = l(y+, good) + l(y-, bad), with l the other objective's.

    Source: Wang et al. 2024 (MPO), arXiv:2411.10442, whose quality loss is BCO's; TRL's `loss_type: bco_pair`.
    """

    def __init__(self, objective: LabelledObjective = BCO()) -> None:
        """
        Args:
            objective: the other one; it may not compare completions with those of other prompts, as `KTO` does.

        Raises:
            ValueError: it does so.
        """
        if objective.needs_mismatched:
            raise ValueError(f"LabelledPairs.objective {type(objective).__name__} reads completions of other prompts, which pairs lack")
        self.objective = objective
        self.needs_step = objective.needs_step

    @property
    def needs(self) -> frozenset[str]:
        return self.objective.needs

    def reward(self, completions: Likelihood) -> Tensor:
        return self.objective.reward(completions)

    def from_step(self, chosen: Likelihood, rejected: Likelihood) -> dict[str, Tensor]:
        """The other one's numbers of all completions of the step, behind `good/` and `bad/` where each has its own."""
        sides = (chosen, rejected)
        references = [rows.reference for rows in sides if rows.reference is not None]
        both = Likelihood(
            torch.cat([rows.logprob for rows in sides]),
            torch.cat([rows.tokens for rows in sides]),
            torch.cat(references) if references else None,
        )
        pairs = len(chosen.logprob)
        numbers: dict[str, Tensor] = {}
        for name, value in self.objective.from_step(both, torch.arange(2 * pairs, device=both.logprob.device) < pairs).items():
            numbers |= {name: value} if value.dim() == 0 else {f"good/{name}": value[:pairs], f"bad/{name}": value[pairs:]}
        return numbers

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> WithStatistics:
        """As `PairObjective.loss`; statistics are those of the better completions."""

        def of(rows: Likelihood, side: Literal["good", "bad"]) -> WithStatistics:
            own = {name.removeprefix(f"{side}/"): value for name, value in chosen.prepared.items()}
            good = torch.full_like(rows.logprob, side == "good", dtype=torch.bool)
            found = self.objective.loss(replace(rows, prepared=own), good)
            return found if isinstance(found, WithStatistics) else WithStatistics(found, {})

        better, worse = of(chosen, "good"), of(rejected, "bad")
        return WithStatistics(better.value + worse.value, better.statistics)
