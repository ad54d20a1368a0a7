"""References that follow the policy."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from annotated_types import Gt, Le
from torch import Tensor, nn

from lightrl.parts.reference import FrozenReference, frozen_copy
from lightrl.ranges import Count


class PeriodicReference(FrozenReference):
    """The policy as it was every so many optimizer steps; adapters are copied together with their base.

    ref <- pi after every `every` steps.

    Source: Gorbatovski et al. 2024 (TR-DPO, hard update), arXiv:2404.09656.
    """

    def __init__(self, every: Count = 512) -> None:
        """
        Args:
            every: optimizer steps between two resets; at least 1.

        Raises:
            ValueError: every below 1.
        """
        super().__init__()
        self.every = every

    def build(self, policy: nn.Module) -> None:
        self._anchor = frozen_copy(policy)

    def moves_at(self, step: int) -> bool:
        return step % self.every == 0

    @torch.no_grad()
    def after_step(self, policy: nn.Module, step: int) -> None:
        if self.moves_at(step) and self._anchor is not None:
            # tensor by tensor: a strategy that shards weights would give its shards as the state
            for mine, new in zip(self._anchor.parameters(), policy.parameters(), strict=True):
                self.move(mine, new)

    def move(self, mine: Tensor, new: Tensor) -> None:
        """Take a tensor of the policy over into one of the reference."""
        mine.copy_(new)

    def state_dict(self) -> dict[str, Any]:
        return {} if self._anchor is None else {"weights": self._anchor.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._anchor is not None and "weights" in state:
            self._anchor.load_state_dict(state["weights"])


class MovingAverageReference(PeriodicReference):
    """A mixture of the policy into the reference every so many optimizer steps.

    ref <- mixture pi + (1 - mixture) ref; mixture multiplies the new policy (the opposite of a decay).

    Source: Gorbatovski et al. 2024 (TR-DPO, soft update), arXiv:2404.09656; Polyak & Juditsky 1992.
    """

    rounds_as_policy = False

    def __init__(self, mixture: Annotated[float, Gt(0), Le(1)] = 0.6, every: Count = 512) -> None:
        """
        Args:
            mixture: share of the present policy, in (0, 1].
            every: optimizer steps between two updates; at least 1.

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(every)
        self.mixture = mixture

    @torch.no_grad()
    def build(self, policy: nn.Module) -> None:
        self._anchor = frozen_copy(policy).float()

    def move(self, mine: Tensor, new: Tensor) -> None:
        mine.lerp_(new.to(mine), self.mixture)
