"""Critics: what was expected? Built only where an advantage needs values."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from lightrl.parts.aggregation import Aggregation, TokenMean
from lightrl.parts.base import Part, fresh
from lightrl.types import Experience


class Critic(Part):
    """Predicts the return before each token and is fitted to it, in the joint forward and backward of the policy."""

    coefficient: float
    """Weight of the value loss in the joint loss."""
    learning_rate: float | None
    """Of the critic's own parameter group; None takes the policy's."""
    aggregation: Aggregation
    """What a token weighs in the value loss."""

    @abstractmethod
    def build(self, policy: nn.Module) -> nn.Module:
        """The trainable module, registered by the LightningModule.

        Its `forward(input_ids [n, L], hidden [n, L, H])` gives `[n, L]` predictions, entry t after having seen tokens
        0..t; the core shifts them. `hidden` is the policy's last hidden state.
        """

    @abstractmethod
    def loss(self, values: Tensor, old_values: Tensor, returns: Tensor) -> Tensor:
        """`[n, L]` to be minimised, from the present values, those at rollout time and the returns."""

    def mask(self, experience: Experience) -> Tensor:
        """`[N, L]` weights of the tokens the critic is fitted on: every sampled token of a scorable row."""
        return (experience.response_mask & experience.scorable[:, None]).to(experience.token_rewards.dtype)


class ValueHead(Critic):
    """A linear head on the policy's trunk, with PPO's clipped value loss.

    loss_t = 1/2 max((V - R)^2, (clip(V, V_old - clip, V_old + clip) - R)^2); without a clip 1/2 (V - R)^2.

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 9 (unclipped); Dhariwal et al. 2017, OpenAI Baselines (clipped).
    """

    def __init__(
        self,
        detach: bool = False,
        clip: float | None = 0.2,
        coefficient: float = 0.1,
        learning_rate: float | None = None,
        aggregation: Aggregation | None = None,
    ) -> None:
        """
        Args:
            detach: True keeps the value loss out of the trunk: only the head learns.
            clip: how far a value may move from the one at rollout time before its gradient stops; None: no limit.
            coefficient: weight of the value loss; at least 0.
            learning_rate: of the head; None takes the policy's.
            aggregation: what a token weighs in the value loss; None: every token the same.

        Raises:
            ValueError: a negative coefficient, or a clip that is not positive.
        """
        if coefficient < 0 or (clip is not None and clip <= 0):
            raise ValueError(f"ValueHead needs coefficient >= 0 and clip > 0 or null, got coefficient={coefficient}, clip={clip}")
        self.detach, self.clip, self.coefficient, self.learning_rate = detach, clip, coefficient, learning_rate
        self.aggregation = fresh(aggregation) if aggregation is not None else TokenMean()

    def build(self, policy: nn.Module) -> nn.Module:
        return _Head(policy.hidden_size, self.detach).to(next(policy.parameters()))  # type: ignore[arg-type]

    def loss(self, values: Tensor, old_values: Tensor, returns: Tensor) -> Tensor:
        plain = (values - returns).square()
        if self.clip is None:
            return plain / 2
        near = torch.maximum(torch.minimum(values, old_values + self.clip), old_values - self.clip)
        return torch.maximum(plain, (near - returns).square()) / 2


class _Head(nn.Module):
    def __init__(self, hidden_size: int, detach: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, 1)
        self.detach = detach
        nn.init.zeros_(self.linear.bias)
        nn.init.normal_(self.linear.weight, std=1 / (hidden_size + 1))

    def forward(self, input_ids: Tensor, hidden: Tensor) -> Tensor:
        out: Tensor = self.linear(hidden.detach() if self.detach else hidden)
        return out[..., 0].to(torch.promote_types(out.dtype, torch.float32))
