"""DAPO (Yu et al. 2025, arXiv:2503.14476): GRPO without a reference, with four changes."""

from typing import Any

from jsonargparse import lazy_instance

from lightrl import (
    Aggregation,
    ClipScheme,
    DecoupledClip,
    DynamicSampler,
    GroupRelative,
    MaskTruncated,
    Sampler,
    TokenMean,
    TokenWeight,
    hookimpl,
)

__all__ = ["DAPO"]


class DAPO(GroupRelative):
    """Decoupled clip and dynamic sampling policy optimisation.

    GRPO with clip-higher (section 3.1), groups that are all right or all wrong drawn again (3.2), every token weighing the same (3.3),
    truncated completions without a loss (3.4), and no KL term (2.3).

    Source: Yu et al. 2025, arXiv:2503.14476, section 3.
    """

    best_for = "long verifiable reasoning from a base model, where many prompts are too easy or too hard to tell completions apart"

    def __init__(
        self,
        sampler: Sampler = lazy_instance(DynamicSampler, group_size=16, max_rounds=10),
        clip: ClipScheme = lazy_instance(DecoupledClip, low=0.2, high=0.28),
        aggregation: Aggregation = lazy_instance(TokenMean),
        token_weight: TokenWeight | None = lazy_instance(MaskTruncated),
        **kwargs: Any,
    ) -> None:
        """
        Args:
            sampler: which completions the policy learns from.
            clip: how far one update may go.
            aggregation: what a token weighs in the loss.
            token_weight: which rows or tokens carry how much loss; null trains on truncated completions as well.
            **kwargs: the other slots of `GroupRelative`.
        """
        super().__init__(sampler=sampler, clip=clip, aggregation=aggregation, token_weight=token_weight, **kwargs)


@hookimpl
def lightrl_algorithms() -> list[type[Any]]:
    return [DAPO]
