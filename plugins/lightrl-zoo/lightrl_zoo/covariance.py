"""The covariance of advantage and log-prob, token by token."""

from torch import Tensor

from lightrl import Minibatch


def covariance(minibatch: Minibatch) -> Tensor:
    """`[N, L]`: Cov_t = (A_t - mean A) (log pi(o_t) - mean log pi), the means over the tokens of the whole step that carry a loss.

    Args:
        minibatch: of all micro-batches and ranks; pi is the current policy.

    Source: Cui et al. 2025, arXiv:2505.22617, eq. 10.
    """
    advantages, logprobs = minibatch.rows.advantages, minibatch.output.logprobs
    return (advantages - minibatch.moments(advantages).mean) * (logprobs - minibatch.moments(logprobs).mean)
