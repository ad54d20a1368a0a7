"""Learning from one's own best answers: expert iteration (RAFT, RFT, ReST), and DPO on pairs that the policy has just sampled."""

from lightrl import GroupRelative, PolicyGradient, SequenceSum, TokenMean, hookimpl
from lightrl_rft.selection import AtLeast, BestAgainstWorst, BestAndWorst, BestOfGroup, Imitation

__all__ = ["AtLeast", "BestAgainstWorst", "BestAndWorst", "BestOfGroup", "ExpertIteration", "Imitation", "OnlineDPO"]


class ExpertIteration(GroupRelative):
    """Reward-ranked fine-tuning: sample, keep the best of each group, imitate it.

    The loss is supervised fine-tuning's on what is kept: the mean over its tokens of -log pi. `token_weight: AtLeast` keeps all good
    enough answers in place of the best one (RFT, ReST).

    Source: Dong et al. 2023 (RAFT), arXiv:2304.06767.
    """

    best_for = "a reward that tells right from wrong and a policy that is sometimes right: robust, and nothing to tune"

    advantage = Imitation()
    clip = PolicyGradient()
    aggregation = TokenMean()
    token_weight = BestOfGroup()
    """Chooses the completions that are imitated."""


class OnlineDPO(GroupRelative):
    """DPO whose pairs are the policy's own: the best completion of each group against the worst.

    For one optimizer step per rollout: with more, the pairs' weights are those from before the first.

    Source: Guo et al. 2024 (OAIF), arXiv:2402.04792.
    """

    best_for = "a judge or reward model that ranks better than it scores, and a policy that must stay near its reference"

    advantage = BestAgainstWorst()
    clip = PolicyGradient()
    aggregation = SequenceSum()
    token_weight = BestAndWorst()
    """Chooses the completions that make the pairs."""


@hookimpl
def lightrl_algorithms() -> list[type]:
    return [ExpertIteration, OnlineDPO]


@hookimpl
def lightrl_advantages() -> list[type]:
    return [BestAgainstWorst, Imitation]


@hookimpl
def lightrl_token_weights() -> list[type]:
    return [AtLeast, BestAndWorst, BestOfGroup]
