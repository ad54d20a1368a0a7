"""DCPO (Yang et al. 2025, arXiv:2509.02333): clips that follow the old probability, advantages that remember the prompt."""

from lightrl import GroupRelative, SequenceSumTokenMean, hookimpl
from lightrl_dcpo.adaptive_clip import DynamicAdaptiveClip
from lightrl_dcpo.smoothed import SmoothedAdvantage

__all__ = ["DCPO", "DynamicAdaptiveClip", "SmoothedAdvantage"]


class DCPO(GroupRelative):
    """Dynamic clipping policy optimisation.

    GRPO with bounds that widen where the old policy gave a token little probability (section 3.1), advantages standardised over all
    uses of a prompt (3.2), the sum over a prompt's completions of the mean over each one's tokens (3.3), and no KL term.

    Source: Yang et al. 2025, arXiv:2509.02333, section 3.
    """

    best_for = "verifiable rewards over several epochs of the same prompts, where redrawing groups without signal costs too much"

    sampler = GroupRelative.sampler.but(group_size=16)
    advantage = SmoothedAdvantage()
    clip = DynamicAdaptiveClip()
    aggregation = SequenceSumTokenMean()


@hookimpl
def lightrl_algorithms() -> list[type]:
    return [DCPO]


@hookimpl
def lightrl_advantages() -> list[type]:
    return [SmoothedAdvantage]


@hookimpl
def lightrl_clip_schemes() -> list[type]:
    return [DynamicAdaptiveClip]
