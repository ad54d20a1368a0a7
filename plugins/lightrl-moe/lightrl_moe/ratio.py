"""Importance ratios of mixtures: they say how many tokens are routed differently, and may take the old routes again."""

from __future__ import annotations

from torch import Tensor

from lightrl import Output, SequenceRatio, StepPart, TokenRatio, TrunkOutput, WithStatistics
from lightrl_moe.routes import OLD_ROUTES, ROLLOUT_ROUTES, Routes


class _Routed(StepPart):
    """Base of the ratios of mixtures: the routes before the first step on a rollout, and those of now."""

    needs_extras = extras_per_token = frozenset({OLD_ROUTES})

    @property
    def outputs(self) -> tuple[Output, ...]:
        return (Routes(),)

    @property
    def old_outputs(self) -> tuple[Output, ...]:
        return (Routes(),)

    @property
    def rollout_outputs(self) -> tuple[TrunkOutput, ...]:
        return (Routes(),)

    def rerouted(self) -> dict[str, Tensor]:
        """The statistics of a micro-batch; those of the rollout only where its engine has recorded routes."""
        old, sampled = self.extra(OLD_ROUTES), self.extras.get(ROLLOUT_ROUTES)
        since = rerouted(old, self.extra(Routes.name))
        before = {} if sampled is None else rerouted(sampled, old)
        return since | {f"{name}_in_rollout": share for name, share in before.items()}


class RoutedTokenRatio(_Routed, TokenRatio):
    """One ratio per token, which also counts the tokens that the new policy routes differently.

    log r_t = log pi(o_t) - log pi_old(o_t). `rerouted/tokens`: the share of tokens that some layer sends to other experts than the policy
    before the first step on the rollout did; `rerouted/experts`: the share of all choices of an expert that have changed. The same of the
    engine while it sampled and that policy: `rerouted/tokens_in_rollout` and `rerouted/experts_in_rollout`, if the engine records them.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, section 5.3.
    """

    def log_ratio(self, logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor | WithStatistics:  # type: ignore[override]
        return WithStatistics(super().log_ratio(logprobs, old_logprobs, mask), self.rerouted())


class RoutedSequenceRatio(_Routed, SequenceRatio):
    """One ratio per row, the geometric mean of its token ratios, which also counts the tokens that the new policy routes differently.

    log s = (1/L) sum_t (log pi(o_t) - log pi_old(o_t)); statistics as `RoutedTokenRatio`.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, eq. 7 and section 5.3.
    """

    def log_ratio(self, logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor | WithStatistics:  # type: ignore[override]
        return WithStatistics(super().log_ratio(logprobs, old_logprobs, mask), self.rerouted())


class ReplayedTokenRatio(RoutedTokenRatio):
    """Routing replay: the new policy sends every token, prompts included, to the experts that the old one sent it to.

    log r_t = log pi(o_t | routes of old) - log pi_old(o_t). The weights of these experts are those of now, with their gradient. All
    terms of the loss see the policy with these routes. The statistics say what its routers would have chosen.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, section 5.3.
    """

    steers = frozenset({OLD_ROUTES})


class ReplayedSequenceRatio(RoutedSequenceRatio):
    """Routing replay with one ratio per row; see `ReplayedTokenRatio`.

    log s = (1/L) sum_t (log pi(o_t | routes of old) - log pi_old(o_t)).

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, eq. 7 and section 5.3.
    """

    steers = frozenset({OLD_ROUTES})


def rerouted(old: Tensor, new: Tensor) -> dict[str, Tensor]:
    """The share of tokens that some layer sends to other experts, and the share of choices that are other experts, `[n, L]` each.

    Args:
        old: `[n, L, layers, k]`.
        new: the same, later; experts in any order.
    """
    moved = ~(new[..., :, None] == old[..., None, :]).any(-1)
    return {"rerouted/tokens": moved.flatten(2).any(-1).double(), "rerouted/experts": moved.flatten(2).double().mean(-1)}
