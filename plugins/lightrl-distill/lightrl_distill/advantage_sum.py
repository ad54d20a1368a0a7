"""Several advantages at once."""

from typing import Literal

import torch
from torch import Tensor

from lightrl import Advantage, Advantages, Experience, Ranks, Statistic


class AdvantageSum(Advantage):
    """A weighted sum of advantages of the same rows.

    A = sum_k w_k A_k, or sum_k w_k A_k / rms(A_k) with `scale: batch`, rms over the sampled tokens of all scorable rows and ranks. An
    advantage that is 0 everywhere stays 0.

    Source: Feng et al. 2025 (GiGPO), arXiv:2505.10978, which adds an advantage of steps to that of the episode with a weight.
    """

    def __init__(
        self, advantages: dict[str, Advantage], weights: dict[str, float] | None = None, scale: Literal["none", "batch"] = "none"
    ) -> None:
        """
        Args:
            advantages: by a name of your choice, under which the root mean square of each is logged as `advantages/NAME/rms`.
            weights: of each advantage by the same names; one that is not named has weight 1, and one with weight 0 needs nothing.
            scale: `batch` divides each advantage by its root mean square first, so that weights compare sizes; `none` leaves them.

        Raises:
            ValueError: there is no advantage, two of them fit a critic or leave the same extra, or a weight is negative or of an
                advantage that is not there.
        """
        if not advantages:
            raise ValueError(
                "AdvantageSum.advantages is empty: name at least one, for example {outcome: GroupNormalized, turns: TurnReturn}"
            )
        self.weights = {name: float((weights or {}).get(name, 1.0)) for name in advantages}
        if unknown := sorted(set(weights or {}) - set(advantages)):
            raise ValueError(f"AdvantageSum.weights names {unknown}, and the advantages are {', '.join(advantages)}")
        if negative := {name: weight for name, weight in self.weights.items() if not weight >= 0}:
            raise ValueError(f"AdvantageSum.weights must be 0 or more, got {negative}")
        if not any(self.weights.values()):
            raise ValueError("AdvantageSum.weights are all 0, and nothing would be learnt: give one of the advantages a weight")
        self.advantages = {name: part for name, part in advantages.items() if self.weights[name]}
        self.scale = scale
        fitting = [name for name, part in self.advantages.items() if "values" in part.needs]
        if len(fitting) > 1:
            raise ValueError(f"AdvantageSum.advantages {', '.join(fitting)} each fit the critic to returns of their own: keep one of them")
        parts = self.advantages.values()
        given = [name for part in parts for name in sorted(part.gives)]
        if twice := sorted({name for name in given if given.count(name) > 1}):
            raise ValueError(f"AdvantageSum.advantages: two of them leave the extra {', '.join(twice)}: rename one of them")

    @property
    def needs_rewards(self) -> bool:
        return any(part.needs_rewards for part in self.advantages.values())

    def compute(self, experience: Experience) -> Advantages:
        total, returns = torch.zeros_like(experience.token_rewards), None
        extras: dict[str, Tensor] = {}
        statistics: dict[str, Tensor | Statistic] = {}
        mask = experience.response_mask & experience.scorable[:, None]
        for name, part in self.advantages.items():
            found = part.compute(experience)
            size = root_mean_square(found.advantages[mask], experience.ranks)
            weight = self.weights[name] / (size if self.scale == "batch" and size else 1.0)
            total = total + weight * found.advantages
            returns = found.returns if returns is None else returns
            extras |= found.extras
            statistics |= {**found.statistics, f"advantages/{name}/rms": torch.full_like(experience.rewards, size)}
        return Advantages(total, returns, statistics, extras)

    def commit(self) -> None:
        """See `Advantage.commit`."""
        for part in self.advantages.values():
            part.commit()


def root_mean_square(values: Tensor, ranks: Ranks) -> float:
    """sqrt(sum x^2 / count) of the numbers of all ranks, 0 where there is none; collective."""
    squares, count = ranks.total(torch.stack([(values.double() ** 2).sum(), values.new_tensor(values.numel()).double()])).tolist()
    return float((squares / max(count, 1.0)) ** 0.5)
