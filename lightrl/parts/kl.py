"""KL penalties: how the policy is tied to another one, in the loss, in the reward, or both."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor

from lightrl.parts.base import Part
from lightrl.ranges import NonNegative, Positive

LIMIT = 20.0
"""Log-ratios are held within this many nats either way before `exp`."""


def within_limit(log_ratio: Tensor) -> Tensor:
    """The same with values held within +-`LIMIT`, so that `exp` is finite, and with the whole gradient, which a clamp would take away."""
    # inf - inf is NaN, and an infinite log-ratio has no gradient to keep
    gradient_alone = (log_ratio - log_ratio.detach()).nan_to_num()
    return log_ratio.detach().clamp(-LIMIT, LIMIT) + gradient_alone


def k1(logprobs: Tensor, other: Tensor) -> Tensor:
    """d, elementwise; unbiased, may be negative."""
    return logprobs - other


def k2(logprobs: Tensor, other: Tensor) -> Tensor:
    """d^2 / 2, elementwise; biased as a value, exact as a gradient on on-policy samples."""
    return (logprobs - other).square() / 2


def k3(logprobs: Tensor, other: Tensor) -> Tensor:
    """e^-d - 1 + d, elementwise, d clamped to +-`LIMIT`; unbiased and never negative."""
    d = (logprobs - other).clamp(-LIMIT, LIMIT)
    # expm1: for policies that are close, e^-d - 1 in float32 would be mostly rounding
    return (-d).expm1() + d


def absolute(logprobs: Tensor, other: Tensor) -> Tensor:
    """|d|, elementwise; no estimate of a KL, but a distance that grows no faster than d."""
    return (logprobs - other).abs()


def straight_through(estimator: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The value of an estimator with the gradient of k2, so that the loss descends KL(pi || other) (verl PR 2953)."""

    def mixed(logprobs: Tensor, other: Tensor) -> Tensor:
        quadratic = k2(logprobs, other)
        return quadratic - quadratic.detach() + estimator(logprobs, other).detach()

    return mixed


ESTIMATORS = {
    "k1": k1,
    "k2": k2,
    "k3": k3,
    "abs": absolute,
    "k1_straight_through": straight_through(k1),
    "k3_straight_through": straight_through(k3),
}
"""Every estimator by its name."""
EXACT_GRADIENT = frozenset({"k2", "k1_straight_through", "k3_straight_through"})
"""Estimators whose expected gradient on on-policy samples is that of KL(pi || other)."""


class KLController(Part):
    """Moves the KL coefficients between rollouts."""

    unit: Literal["row", "token"] = "row"
    """The KL is a mean over rows (each the sum of its tokens), or over tokens."""

    @abstractmethod
    def factor(self, kl: float, rows: int) -> float:
        """The factor on the coefficients after a rollout of so many rows, with its KL in nats per `unit`."""


class AdaptiveKL(KLController):
    """Proportional controller that steers the KL of a sequence towards a target.

    e = clip(KL / target - 1, -0.2, 0.2); factor = 1 + e min(rows / horizon, 1).

    Source: Ziegler et al. 2019, arXiv:1909.08593, section 2.2.
    """

    def __init__(self, target: Positive = 6.0, horizon: Positive = 10_000) -> None:
        """
        Args:
            target: nats per sequence (not per token); > 0.
            horizon: rows over which the coefficient moves by 20 % at most; > 0.

        Raises:
            ValueError: target or horizon is not positive.
        """
        self.target, self.horizon = target, horizon

    def factor(self, kl: float, rows: int) -> float:
        error = max(-0.2, min(0.2, kl / self.target - 1))
        return 1 + error * min(rows / self.horizon, 1)


class KL(Part):
    """Ties the policy to another one by a penalty per token."""

    against: Literal["reference", "old"]
    """The other policy: the reference, or the one that sampled."""
    loss_coefficient: float
    """Weight in the loss; 0 = not there."""
    reward_coefficient: float
    """Weight in the token rewards; 0 = not there."""

    @property
    def unit(self) -> Literal["row", "token"]:
        """The KL that `observe` is told is a mean over rows, or over tokens."""
        return "row"

    @property
    def observes(self) -> bool:
        """`observe` has a use for the KL, so the core measures it even at the cost of a forward pass."""
        return False

    @abstractmethod
    def penalty(self, logprobs: Tensor, other_logprobs: Tensor, log_ratio: Tensor) -> Tensor:
        """`[n, L]` penalty per token, to be minimised.

        Args:
            logprobs: `[n, L]` under the current policy (in the loss, with gradient) or the old one (in the reward).
            other_logprobs: `[n, L]` under the policy it is tied to, no gradient.
            log_ratio: `[n, L]` current against old, for estimators corrected for off-policy samples; 0 in the reward.
        """

    def observe(self, kl: float, rows: int) -> None:
        """Told after each rollout its number of rows and its KL, the mean in nats per `unit`.

        Against the reference it is KL(old || reference) of the policy that sampled, against the old policy KL(old || new) after the last
        step.
        """


class KLPenalty(KL):
    """An estimator of KL(pi || reference) on the sampled tokens.

    With d = log pi - log reference: k1 = d, k2 = d^2 / 2, k3 = e^-d - 1 + d, abs = |d|; k1_straight_through and
    k3_straight_through have k2's gradient beside their value.
    Off-policy correction multiplies by r = exp(log_ratio). In the loss the gradient of r k1 and r k3 goes through r as well;
    k2 and the straight-through ones, whose own gradient is already that of the KL, take r as a constant.

    Against the old policy, which has drawn the samples, it is KL(old || pi), d = log old - log pi: there k1 and k3 have the
    exact gradient as they are, and there is nothing to correct.

    Source: Schulman 2020, "Approximating KL divergence"; off-policy form: DeepSeek-V3.2, arXiv:2512.02556.
    """

    def __init__(
        self,
        estimator: Literal["k1", "k2", "k3", "abs", "k1_straight_through", "k3_straight_through"] = "k3",
        loss_coefficient: NonNegative = 0.0,
        reward_coefficient: NonNegative = 0.0,
        against: Literal["reference", "old"] = "reference",
        off_policy: bool = False,
        controller: KLController | None = None,
    ) -> None:
        """
        Args:
            estimator: of the KL per token; in the loss k1 against the reference has no expected gradient.
            loss_coefficient: weight in the loss, at least 0.
            reward_coefficient: weight in the token rewards, at least 0.
            against: the reference policy, or the old one (then in the loss only).
            off_policy: multiply by the importance ratio; against the reference only.
            controller: moves the coefficients between rollouts; None keeps them fixed.

        Raises:
            ValueError: a coefficient out of range, KL against the old policy in the reward or corrected for off-policy samples, or a
                controller without a coefficient to move.
        """
        if against == "old" and reward_coefficient > 0:
            raise ValueError("KL of the old policy against itself is 0: use loss_coefficient with against: old, or against: reference")
        if against == "old" and off_policy:
            raise ValueError("KL(old || pi) is over samples of the old policy, which these are: set off_policy to false with against: old")
        if controller is not None and loss_coefficient == reward_coefficient == 0:
            raise ValueError("KLPenalty has a controller and no coefficient for it to move: set one above 0, or controller to null")
        self.estimator, self.against, self.off_policy, self.controller = estimator, against, off_policy, controller
        self.loss_coefficient, self.reward_coefficient = loss_coefficient, reward_coefficient

    @property
    def needs(self) -> frozenset[str]:
        used = self.loss_coefficient > 0 or self.reward_coefficient > 0
        return frozenset({"ref_logprobs"} if used and self.against == "reference" else ())

    @property
    def unit(self) -> Literal["row", "token"]:
        return "row" if self.controller is None else self.controller.unit

    @property
    def observes(self) -> bool:
        return self.controller is not None

    def penalty(self, logprobs: Tensor, other_logprobs: Tensor, log_ratio: Tensor) -> Tensor:
        if self.against == "old":
            return ESTIMATORS[self.estimator](other_logprobs, logprobs)
        value = ESTIMATORS[self.estimator](logprobs, other_logprobs)
        if not self.off_policy:
            return value
        ratio = log_ratio.exp()
        return value * (ratio.detach() if self.estimator in EXACT_GRADIENT else ratio)

    def observe(self, kl: float, rows: int) -> None:
        if self.controller is not None:
            factor = self.controller.factor(kl, rows)
            self.loss_coefficient *= factor
            self.reward_coefficient *= factor

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"loss_coefficient": self.loss_coefficient, "reward_coefficient": self.reward_coefficient}
        if self.controller is not None:
            state["controller"] = self.controller.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.controller is not None:
            self.loss_coefficient, self.reward_coefficient = state["loss_coefficient"], state["reward_coefficient"]
            self.controller.load_state_dict(state.get("controller", {}))
