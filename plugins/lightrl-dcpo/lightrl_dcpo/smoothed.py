"""Advantages smoothed over every use of a prompt, so that a group of equal rewards still teaches what its history says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lightrl import Advantage, Advantages, Experience, broadcast_to_tokens, group_statistics

TOLERANCE = 1e-6
"""A deviation over all uses of at most this, relative to the rewards, is float noise."""


@dataclass(frozen=True)
class History:
    """Count, mean and population variance, each use of the prompt weighing the same."""

    uses: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def with_use(self, mean: float, variance: float) -> History:
        """After one more use with this mean and population variance.

        mean_i = (mean + (i-1) mean_{i-1}) / i, var_i = (var + (i-1) var_{i-1} + (i-1)/i (mean_{i-1} - mean)^2) / i.

        Source: Yang et al. 2025 (DCPO), arXiv:2509.02333, appendix A.7.
        """
        i, before = self.uses + 1, self.uses
        between = before / i * (self.mean - mean) ** 2
        return History(i, (mean + before * self.mean) / i, (variance + before * self.variance + between) / i)


class SmoothedAdvantage(Advantage):
    """Smooth advantage standardisation (SAS): rewards standardised over this use of the prompt and over all its uses, mixed.

    With i = how often the prompt has been used, A_new = (R - mean) / std over this use and A_tot over all uses (population std, 0
    where it is 0): S_new = ((i-1) A_new + A_tot) / i, S_tot = (A_new + (i-1) A_tot) / i, and each response takes the one of smaller
    magnitude. The first use gives what `GroupNormalized(ddof=0, eps=0)` gives.

    Prompts are told apart by their id: completions of one prompt in a batch are one use, whatever their groups. A use is counted
    after the rollout's steps, from the scorable rows of all ranks, if at least one of them carried a loss. The history of a prompt
    is three numbers, and travels in the checkpoint.

    Source: Yang et al. 2025 (DCPO), arXiv:2509.02333, section 3.2, eq. 5 to 7, appendix A.7.
    """

    compares = True

    def __init__(self) -> None:
        self._history: dict[str, History] = {}
        self._next: dict[str, History] = {}

    def compute(self, experience: Experience) -> Advantages:
        ids = [prompt.id for prompt in experience.prompts]
        used, trained = _uses(experience, ids)
        after = {name: self._history.get(name, History()).with_use(mean, std**2) for name, (mean, std) in used.items()}

        def column(values: Iterable[float]) -> Tensor:
            return torch.tensor(list(values), dtype=torch.float64, device=experience.group.device)

        uses, mean, variance = (column(getattr(after[name], field) for name in ids) for field in ("uses", "mean", "variance"))
        rewards = experience.rewards.double()
        new = _standardised(rewards, column(used[name][0] for name in ids), column(used[name][1] for name in ids))
        std, noise = variance.sqrt(), TOLERANCE * torch.maximum(rewards.abs(), mean.abs())
        total = _standardised(rewards, mean, torch.where(std <= noise, 0.0, std))
        by_new, by_total = ((uses - 1) * new + total) / uses, (new + (uses - 1) * total) / uses
        picks_new = by_new.abs() < by_total.abs()
        advantages = torch.where(picks_new, by_new, by_total)
        self._next = {name: after[name] for name in used if name in trained}
        statistics = _report(experience, ids, uses, advantages, picks_new)
        return Advantages(broadcast_to_tokens(advantages, experience), statistics=statistics)

    def commit(self) -> None:
        self._history.update(self._next)
        self._next = {}

    def state_dict(self) -> dict[str, Any]:
        return {"history": {name: [h.uses, h.mean, h.variance] for name, h in self._history.items()}} if self._history else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._history = {name: History(*numbers) for name, numbers in state.get("history", {}).items()}
        self._next = {}


def _standardised(rewards: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    return torch.where(std == 0, 0.0, (rewards - mean) / torch.where(std == 0, 1.0, std))


def _uses(experience: Experience, ids: list[str]) -> tuple[dict[str, tuple[float, float]], set[str]]:
    """Mean and deviation of the rewards of each prompt, over the rows of all ranks, and the prompts that carry a loss."""
    carries = (experience.token_weight > 0).any(1) & experience.scorable
    everyone = experience.ranks.gather((ids, experience.rewards.tolist(), experience.scorable.tolist(), carries.tolist()))
    names = [name for of_rank in everyone for name in of_rank[0]]
    numbers = {name: i for i, name in enumerate(dict.fromkeys(names))}
    prompt = torch.tensor([numbers[name] for name in names], dtype=torch.long)
    rewards = torch.tensor([reward for of_rank in everyone for reward in of_rank[1]], dtype=torch.float64)
    scorable = torch.tensor([scored for of_rank in everyone for scored in of_rank[2]], dtype=torch.bool)
    now = group_statistics(rewards, prompt, scorable, ddof=0)
    trained = {name for of_rank in everyone for name, counts in zip(of_rank[0], of_rank[3], strict=True) if counts}
    return dict(zip(names, zip(now.mean.tolist(), now.std.tolist(), strict=True), strict=True)), trained


def _report(experience: Experience, ids: list[str], uses: Tensor, advantages: Tensor, picks_new: Tensor) -> dict[str, Tensor]:
    """Response utilisation (eq. 10) per row, earlier uses per prompt, and which of the two is picked, from the third use on."""
    scored, again = experience.scorable, uses > 1
    first = {number: row for row, number in reversed(list(enumerate(ids))) if scored[row]}
    counted = torch.zeros_like(scored).index_fill(0, torch.tensor(list(first.values()), dtype=torch.long, device=scored.device), True)
    return {
        "response_utilization_ratio": torch.where(scored, (advantages != 0).double(), torch.nan),
        "smoothing/seen_before": torch.where(counted, again.double(), torch.nan),
        "smoothing/picked_new": torch.where(scored & (uses > 2), picks_new.double(), torch.nan),
    }
