"""DAPO (Yu et al. 2025, arXiv:2503.14476): GRPO without a reference, with four changes."""

from lightrl import DecoupledClip, GroupRelative, MaskTruncated, TokenMean, hookimpl
from lightrl_dapo.dynamic_sampler import DynamicSampler

__all__ = ["DAPO", "DynamicSampler"]


class DAPO(GroupRelative):
    """Decoupled clip and dynamic sampling policy optimisation.

    GRPO with clip-higher (section 3.1), groups that are all right or all wrong drawn again (3.2), every token weighing the same (3.3),
    truncated completions without a loss (3.4), and no KL term (2.3).

    Source: Yu et al. 2025, arXiv:2503.14476, section 3.
    """

    best_for = "long verifiable reasoning from a base model, where many prompts are too easy or too hard to tell completions apart"

    sampler = DynamicSampler(group_size=16, max_rounds=10)
    clip = DecoupledClip(low=0.2, high=0.28)
    aggregation = TokenMean()
    token_weight = MaskTruncated()
    """How much loss each row and token carries; null trains on truncated completions as well."""


@hookimpl
def lightrl_algorithms() -> list[type]:
    return [DAPO]


@hookimpl
def lightrl_samplers() -> list[type]:
    return [DynamicSampler]
