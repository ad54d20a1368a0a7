"""High-entropy tokens alone (Wang et al. 2025, arXiv:2506.01939)."""

import math
from typing import Annotated

import torch
from annotated_types import Gt, Le
from torch import Tensor

from lightrl import ClipScheme, DecoupledClip, Entropy, GroupRelative, Minibatch, Output, Surrogate, TokenMean

KEPT = "high_entropy"


class TopEntropy(ClipScheme):
    """Another clip scheme, for the tokens of highest entropy alone.

    J_t = (N / K) M_t J'_t, with J' of the other scheme, N the tokens of the step with a loss, and M_t = 1 for the K = ceil(share N) of
    them at which the current policy has the highest entropy; else 0. So a token mean is one over the tokens that are left.

    Source: Wang et al. 2025, arXiv:2506.01939 (version 2), eq. 6, with the share of section 5.2; K tokens and not all at a threshold, as
    in the authors' code.
    """

    def __init__(
        self, clip: ClipScheme = DecoupledClip(low=0.2, high=0.28), share: Annotated[float, Gt(0), Le(1)] = 0.2, by: Output = Entropy()
    ) -> None:
        """
        Args:
            clip: the scheme of the tokens that are left.
            share: of the tokens of a step that are left; in (0, 1].
            by: the number of the policy whose largest values are left.
        """
        self.clip, self.share, self.by = clip, share, by
        self.token_ratio_only, self.row_constant, self.bounded = clip.token_ratio_only, clip.row_constant, clip.bounded
        self.silent_without_advantage = clip.silent_without_advantage

    @property
    def gives(self) -> frozenset[str]:
        return self.clip.gives | {KEPT}

    @property
    def outputs(self) -> tuple[Output, ...]:
        return (self.by, *self.clip.outputs)

    def prepare(self, minibatch: Minibatch) -> dict[str, Tensor]:
        tokens = minibatch.total(minibatch.mask)
        # rounded, since 0.2 x 15 is a little more than 3
        count = math.ceil(round(self.share * tokens, 6))
        values = minibatch.output.needed(self.by.name)
        kept = minibatch.largest(values, minibatch.mask, count, KEPT)
        return {**self.clip.prepare(minibatch), KEPT: kept.to(values) * (tokens / max(count, 1))}

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        inner, weight = self.clip.given(self.extras).surrogate(log_ratio, advantages, old_logprobs, mask), self.extra(KEPT)
        kept = weight > 0
        loss = torch.where(kept, inner.loss * weight, 0.0)
        shares = {name: share & kept for name, share in inner.shares.items()}
        return Surrogate(loss, inner.clipped_low & kept, inner.clipped_high & kept, shares | {"high_entropy/kept": kept}, inner.statistics)


class ForkingTokens(GroupRelative):
    """GRPO on the fifth of the tokens at which the policy is least certain.

    GRPO with `TopEntropy`, every token weighing the same, and no KL. The paper starts from DAPO: add `sampler: DynamicSampler`.

    Source: Wang et al. 2025, arXiv:2506.01939, section 5.
    """

    best_for = "long chains of thought, in which most tokens are certain and a few decide"

    clip = TopEntropy()
    aggregation = TokenMean()
