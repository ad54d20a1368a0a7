"""GRPO (Shao et al. 2024, DeepSeekMath, arXiv:2402.03300) and Dr. GRPO (Liu et al. 2025, arXiv:2503.20783)."""

from lightrl import ConstantLength, GroupCentered, GroupRelative, KLPenalty, hookimpl
from lightrl_grpo.process import StepNormalized

__all__ = ["GRPO", "DrGRPO", "StepNormalized"]


class GRPO(GroupRelative):
    """Group relative policy optimisation.

    Rewards normalised within the completions of one prompt (section 4.1.2), PPO's clip, the mean over each completion's
    tokens (eq. 3), and a k3 penalty against the reference in the loss (eq. 4).

    Source: Shao et al. 2024, arXiv:2402.03300, section 4.1.
    """

    best_for = "verifiable rewards, many completions per prompt, and a tuned model that must stay near its start"

    kl = KLPenalty(estimator="k3", loss_coefficient=0.04)


class DrGRPO(GroupRelative):
    """GRPO done right: without the two divisions that bias it.

    Rewards minus their group's mean, not divided by a deviation, and each row's sum of tokens divided by one constant for all
    rows, so that neither easy groups nor short wrong answers weigh more; no KL.

    Source: Liu et al. 2025, arXiv:2503.20783, section 3.2.
    """

    best_for = "GRPO where wrong answers grow longer and longer, or very easy and very hard prompts get too much weight"

    advantage = GroupCentered()
    aggregation = ConstantLength(length=3000)
    """How much a token weighs in the loss; `length` is the longest response that can occur, 3000 in the authors' code."""


@hookimpl
def lightrl_algorithms() -> list[type]:
    return [DrGRPO, GRPO]


@hookimpl
def lightrl_advantages() -> list[type]:
    return [StepNormalized]
