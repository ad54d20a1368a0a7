"""High-entropy tokens alone (Wang et al. 2025, arXiv:2506.01939)."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from annotated_types import Gt, Le
from torch import Tensor

from lightrl import ClipScheme, DecoupledClip, Entropy, GroupRelative, Minibatch, Output, Surrogate, TokenMean

KEPT = "high_entropy"


class TopEntropy(ClipScheme):
    """Another clip scheme, for the tokens of highest entropy alone.

    J_t = M_t J'_t, with J' of the other scheme, and M_t = 1 for the ceil(share N) tokens of the step at which the current policy has the
    highest entropy, N counting tokens with a loss; else 0. Tokens that are left out count in the denominators all the same.

    Source: Wang et al. 2025, arXiv:2506.01939, section 4, and TRL's `top_entropy_quantile`, which counts alike.
    """

    def __init__(
        self,
        clip: ClipScheme = DecoupledClip(low=0.2, high=0.28),
        share: Annotated[float, Gt(0), Le(1)] = 0.2,
        by: Output = Entropy(),
    ) -> None:
        """
        Args:
            clip: the scheme of the tokens that are left.
            share: of the tokens of a step that are left; in (0, 1].
            by: the number of the policy whose largest values are left.
        """
        self.clip, self.share, self.by = clip, share, by
        self.token_ratio_only, self.row_constant, self.bounded = clip.token_ratio_only, clip.row_constant, clip.bounded
        self.silent_without_advantage, self.needs_extras = clip.silent_without_advantage, clip.needs_extras
        self.prepares = clip.prepares | {KEPT}

    @property
    def outputs(self) -> tuple[Output, ...]:
        return (self.by, *self.clip.outputs)

    def prepare(self, minibatch: Minibatch) -> dict[str, Tensor]:
        # rounded, since 0.2 x 15 is a little more than 3
        count = math.ceil(round(self.share * minibatch.total(minibatch.mask), 6))
        kept = minibatch.largest(minibatch.output.needed(self.by.name), minibatch.mask, count, KEPT)
        return {**self.clip.prepare(minibatch), KEPT: kept}

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        inner, kept = self.clip.given(self.extras).surrogate(log_ratio, advantages, old_logprobs, mask), self.extra(KEPT)
        loss = torch.where(kept, inner.loss, 0.0)
        shares = {name: share & kept for name, share in inner.shares.items()}
        return Surrogate(loss, inner.clipped_low & kept, inner.clipped_high & kept, shares | {"high_entropy/kept": kept}, inner.statistics)


class ForkingTokens(GroupRelative):
    """GRPO on the fifth of the tokens at which the policy is least certain.

    GRPO with `TopEntropy`, every token weighing the same, and no KL. The paper starts from DAPO: add `sampler: DynamicSampler`.

    Source: Wang et al. 2025, arXiv:2506.01939.
    """

    best_for = "long chains of thought, in which most tokens are certain and a few decide"

    clip = TopEntropy()
    aggregation = TokenMean()
