"""Several objectives at once."""

from dataclasses import replace

import torch
from torch import Tensor

from lightrl import Likelihood, PairObjective, Statistic, WithStatistics


class MixedObjective(PairObjective):
    """A weighted sum of objectives on the same pairs.

    loss = sum_k w_k loss_k. The implicit reward is that of the first.

    Source: Wang et al. 2024 (MPO), arXiv:2411.10442, which mixes a preference, a quality and a likelihood term.
    """

    def __init__(self, objectives: dict[str, PairObjective], weights: dict[str, float] | None = None) -> None:
        """
        Args:
            objectives: by a name of your choice, under which each one's loss is logged as `loss/NAME`.
            weights: of each objective by the same names; one that is not named has weight 1, and one with weight 0 needs nothing.

        Raises:
            ValueError: there is no objective, one does not learn from pairs, or a weight is negative or of an objective that is not there.
        """
        if not objectives:
            raise ValueError("MixedObjective.objectives is empty: name at least one, for example {dpo: DPO, likelihood: ChosenLikelihood}")
        for name, objective in objectives.items():
            if not isinstance(objective, PairObjective):
                raise ValueError(f"MixedObjective.objectives.{name} is {type(objective).__name__}, which does not learn from pairs")
        self.objectives = dict(objectives)
        self.weights = {name: float((weights or {}).get(name, 1.0)) for name in objectives}
        if unknown := sorted(set(weights or {}) - set(objectives)):
            raise ValueError(f"MixedObjective.weights names {unknown}, and the objectives are {', '.join(objectives)}")
        if negative := {name: weight for name, weight in self.weights.items() if not weight >= 0}:
            raise ValueError(f"MixedObjective.weights must be 0 or more, got {negative}")
        if not any(self.weights.values()):
            raise ValueError("MixedObjective.weights are all 0, and nothing would be learnt: give one of the objectives a weight")
        self.needs_step = any(self.objectives[name].needs_step for name in self._learning)

    @property
    def _learning(self) -> list[str]:
        """Those that have a weight."""
        return [name for name in self.objectives if self.weights[name]]

    @property
    def needs(self) -> frozenset[str]:
        first = next(iter(self.objectives))
        return frozenset().union(*(part.needs for name, part in self.objectives.items() if self.weights[name] or name == first))

    def reward(self, completions: Likelihood) -> Tensor:
        return next(iter(self.objectives.values())).reward(completions)

    def from_step(self, chosen: Likelihood, rejected: Likelihood) -> dict[str, Tensor]:
        """The numbers that each objective prepares, behind its name and a slash."""
        asking = {name: self.objectives[name] for name in self._learning if self.objectives[name].needs_step}
        return {f"{name}/{key}": value for name, part in asking.items() for key, value in part.from_step(chosen, rejected).items()}

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> WithStatistics:
        parts: dict[str, Tensor] = {}
        statistics: dict[str, Tensor | Statistic] = {}
        for name in self._learning:
            found = self.objectives[name].loss(_prepared_for(name, chosen), _prepared_for(name, rejected))
            parts[name] = found.value if isinstance(found, WithStatistics) else found
            statistics |= found.statistics if isinstance(found, WithStatistics) else {}
            statistics[f"loss/{name}"] = parts[name].detach()
        total = torch.stack([self.weights[name] * part for name, part in parts.items()]).sum(0)
        return WithStatistics(total, statistics)


def _prepared_for(name: str, completions: Likelihood) -> Likelihood:
    """The completions as one objective of the mixture sees them."""
    own = {key.removeprefix(f"{name}/"): value for key, value in completions.prepared.items() if key.startswith(f"{name}/")}
    return replace(completions, prepared=own)
