"""Estimators of KL(pi || other) from the log-probs of tokens that pi sampled.

With d = log pi - log other (Schulman, "Approximating KL divergence", 2020):
k1 = d, k2 = d^2 / 2, k3 = e^-d - 1 + d. k1 and k3 are unbiased, k2 and k3 are never negative.
As a loss on on-policy samples, k1's expected gradient is 0, k2's is that of KL(pi || other), k3's that of KL(other || pi).
"""

from torch import Tensor

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


def k3_straight_through(logprobs: Tensor, other: Tensor) -> Tensor:
    """The value of k3 with the gradient of k2, so that the loss descends KL(pi || other) (verl PR 2953)."""
    quadratic = k2(logprobs, other)
    return quadratic - quadratic.detach() + k3(logprobs, other).detach()


ESTIMATORS = {"k1": k1, "k2": k2, "k3": k3, "k3_straight_through": k3_straight_through}
"""Every estimator by its name."""
