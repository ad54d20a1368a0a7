"""Critics: what was expected? Built only where an advantage needs values."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from lightrl.parts.aggregation import Aggregation, TokenMean
from lightrl.parts.base import Part
from lightrl.ranges import LearningRate, MorePasses, Natural, NonNegative, Positive
from lightrl.types import Experience, WithStatistics


class Critic(Part):
    """Predicts the return before each token and is fitted to it, in the joint forward and backward of the policy."""

    coefficient: float
    """Weight of the value loss in the joint loss."""
    learning_rate: float | None
    """Of the critic's own parameter group; None takes the policy's."""
    aggregation: Aggregation
    """The weight of a token in the value loss."""
    own_trunk: bool = False
    """It is a network beside the policy's, whose `trunk` is that of a causal LM, and not a head on it."""
    warmup_rollouts: int = 0
    """The first rollouts of a run train the critic alone; the policy stays as it is."""
    extra_epochs: int = 0
    """Passes over each rollout for the critic alone, after those it shares with the policy."""

    def check(self, policy: nn.Module) -> None:
        """Refuse, with a ValueError, a policy for which it cannot be built; before `build`, when its weights may not have been read."""

    @abstractmethod
    def build(self, policy: nn.Module) -> nn.Module:
        """The trainable module, registered by the LightningModule.

        Its `forward(input_ids [n, L], hidden [n, L, H])` gives `[n, L]` predictions, entry t after having seen tokens
        0..t; the core shifts them. `hidden` is the policy's last hidden state, without gradient where the critic learns alone. A
        module with the attribute `reads_hidden = False` is given a function in its place, which runs the trunk of a causal LM that the
        module has and gives the last hidden state of that.
        """

    @abstractmethod
    def loss(self, values: Tensor, old_values: Tensor, returns: Tensor) -> Tensor | WithStatistics:
        """`[n, L]` to be minimised, from the present values, those at rollout time and the returns."""

    def weights(self, experience: Experience) -> Tensor:
        """`[N, L]` weights of the tokens the critic is fitted on: every sampled token of a scorable row."""
        return (experience.response_mask & experience.scorable[:, None]).to(experience.token_rewards.dtype)


class ClippedCritic(Critic):
    """PPO's clipped value loss, whatever predicts the values.

    loss_t = 1/2 max((V - R)^2, (clip(V, V_old - clip, V_old + clip) - R)^2); without a clip 1/2 (V - R)^2.

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 9 (unclipped); Dhariwal et al. 2017, OpenAI Baselines (clipped).
    """

    def __init__(
        self,
        clip: Positive | None = 0.2,
        coefficient: NonNegative = 0.1,
        learning_rate: LearningRate | None = None,
        aggregation: Aggregation | None = None,
        warmup_rollouts: Natural = 0,
        extra_epochs: MorePasses = 0,
    ) -> None:
        """
        Args:
            clip: how far a value may move from the one at rollout time before its gradient stops; None: no limit.
            coefficient: weight of the value loss; at least 0.
            learning_rate: of the critic's parameters; None takes the policy's.
            aggregation: what a token weighs in the value loss; None: every token the same.
            warmup_rollouts: the first rollouts of a run train the critic alone.
            extra_epochs: passes over each rollout for the critic alone, after those it shares with the policy.

        Raises:
            ValueError: a negative number, or a clip that is not positive.
        """
        self.clip, self.coefficient, self.learning_rate = clip, coefficient, learning_rate
        self.warmup_rollouts, self.extra_epochs = warmup_rollouts, extra_epochs
        self.aggregation = TokenMean() if aggregation is None else aggregation

    def loss(self, values: Tensor, old_values: Tensor, returns: Tensor) -> WithStatistics:
        """As `Critic.loss`; `value_clip_ratio` is the share of tokens whose clipped error is the larger one."""
        plain = (values - returns).square()
        if self.clip is None:
            return WithStatistics(plain / 2, {})
        near = torch.maximum(torch.minimum(values, old_values + self.clip), old_values - self.clip)
        clipped = (near - returns).square()
        return WithStatistics(torch.maximum(plain, clipped) / 2, {"value_clip_ratio": (clipped > plain).double()})


class ValueHead(ClippedCritic):
    """A linear head on the policy's own trunk.

    V_t = w h_t + b, with h_t the policy's last hidden state; loss of `ClippedCritic`.

    Source: Schulman et al. 2017 (PPO), arXiv:1707.06347, section 5 (parameters shared by policy and value function).
    """

    def __init__(self, detach: bool = False, **kwargs: Any) -> None:
        """
        Args:
            detach: True keeps the value loss out of the trunk: only the head learns.
            **kwargs: the arguments of `ClippedCritic`.
        """
        super().__init__(**kwargs)
        self.detach = detach

    def build(self, policy: nn.Module) -> nn.Module:
        return _SharedTrunk(hidden_size(policy), self.detach).to(next(policy.parameters()))


def hidden_size(policy: nn.Module) -> int:
    """The width of a policy's hidden states: its number `hidden_size`, as `lightrl.Policy` has it, or a TypeError."""
    size = getattr(policy, "hidden_size", None)
    if not isinstance(size, int):
        raise TypeError(f"a critic reads hidden states, and {type(policy).__name__} does not say how wide they are: hidden_size is {size}")
    return size


def value_head(hidden_size: int) -> nn.Linear:
    """A linear layer `[H] -> [1]` that begins near 0, and computes in float32 or better."""
    head = WideLinear(hidden_size, 1)
    nn.init.zeros_(head.bias)
    nn.init.normal_(head.weight, std=1 / (hidden_size + 1))
    return head


class _SharedTrunk(nn.Module):
    def __init__(self, hidden_size: int, detach: bool) -> None:
        super().__init__()
        self.linear = value_head(hidden_size)
        self.detach = detach

    def forward(self, input_ids: Tensor, hidden: Tensor) -> Tensor:
        found: Tensor = self.linear(hidden.detach() if self.detach else hidden)
        return found[..., 0]


class WideLinear(nn.Linear):
    """A head whose outputs are compared or learnt from: in bfloat16 good completions would tie, and values come in steps of 1/256."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """`[..., out]`, float32 or better, of `[..., in]`; autocast has no say."""
        wide = torch.promote_types(self.weight.dtype, torch.float32)
        with torch.autocast(input.device.type, enabled=False):
            return linear(input.to(wide), self.weight.to(wide), None if self.bias is None else self.bias.to(wide))
