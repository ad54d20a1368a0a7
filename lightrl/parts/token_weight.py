"""Token weights: which rows or tokens carry how much loss."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from lightrl.parts.step_part import StepPart
from lightrl.types import Experience, TrainingBatch


class TokenWeight(StepPart):
    """Decides what each token counts in the loss; weighted counts enter the denominators."""

    @property
    def sees_steps(self) -> bool:
        return bool(self.gives)

    @abstractmethod
    def weights(self, experience: Experience) -> Tensor:
        """`[N, L]` at least 0; 0 masks. The core multiplies by the response mask and drops rows that are not scorable.

        The rows are those of this rank, in whole groups, without advantages yet. A threshold over the batch is not possible here: other
        ranks have the rest of it. Completions of one prompt can be compared. What must see the whole batch belongs into an advantage, into
        a sampler, which has `Collection.total`, or into `prepare` and `step_weights`, which see an optimizer step.
        """

    def step_weights(self, rows: TrainingBatch) -> Tensor:
        """`[N, L]` at least 0, by which the weights are multiplied in one optimizer step; asked if `gives` names anything."""
        return torch.ones_like(rows.token_weight)

    def in_statistics(self, experience: Experience) -> Tensor:
        """`[N]` bool: rows whose reward enters the statistics of the advantage, each decided by itself; the others get the advantage 0."""
        return torch.ones(len(experience), dtype=torch.bool, device=experience.group.device)


class MaskTruncated(TokenWeight):
    """Overlong filtering: a completion cut at a token limit carries no loss.

    The whole row is masked, not its tail; its reward stays in the statistics of its group unless that is asked for.

    Source: Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.4.
    """

    def __init__(self, drop_from_statistics: bool = False, turns: bool = False) -> None:
        """
        Args:
            drop_from_statistics: the reward of such a row does not enter the statistics of its group either.
            turns: an episode that reached the limit of turns is masked as well.
        """
        self.drop_from_statistics, self.turns = drop_from_statistics, turns

    def weights(self, experience: Experience) -> Tensor:
        return torch.ones_like(experience.token_rewards) * self._whole(experience)[:, None]

    def in_statistics(self, experience: Experience) -> Tensor:
        return self._whole(experience) if self.drop_from_statistics else super().in_statistics(experience)

    def _whole(self, experience: Experience) -> Tensor:
        limits = {"length", "turns"} if self.turns else {"length"}
        kept = [reason not in limits for reason in experience.finish_reason]
        return torch.tensor(kept, dtype=torch.bool, device=experience.group.device)
