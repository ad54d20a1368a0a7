"""GRPO (Shao et al. 2024, DeepSeekMath, arXiv:2402.03300)."""

from typing import Any

from jsonargparse import lazy_instance

from lightrl import KL, GroupRelative, KLPenalty, hookimpl
from lightrl_grpo.process import StepNormalized

__all__ = ["GRPO", "StepNormalized"]


class GRPO(GroupRelative):
    """Group relative policy optimisation.

    Rewards normalised within the completions of one prompt (section 4.1.2), PPO's clip, the mean over each completion's
    tokens (eq. 3), and a k3 penalty against the reference in the loss (eq. 4).

    Source: Shao et al. 2024, arXiv:2402.03300, section 4.1.
    """

    def __init__(self, kl: KL | None = lazy_instance(KLPenalty, estimator="k3", loss_coefficient=0.04), **kwargs: Any) -> None:
        """
        Args:
            kl: how the policy is tied to the reference; null trains without one.
            **kwargs: the other slots of `GroupRelative`.
        """
        super().__init__(kl=kl, **kwargs)


@hookimpl
def lightrl_algorithms() -> list[type[Any]]:
    return [GRPO]


@hookimpl
def lightrl_advantages() -> list[type[Any]]:
    return [StepNormalized]
