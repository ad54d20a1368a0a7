"""REINFORCE++ (Hu et al. 2025, arXiv:2501.03262), alone and with the group's mean as baseline."""

from lightrl import (
    Algorithm,
    GroupSampler,
    KLPenalty,
    SequenceMean,
    SymmetricClip,
    TokenMean,
)
from lightrl_ppo.whitened import WhitenedReturn


class ReinforcePlusPlus(Algorithm):
    """PPO without a critic: returns whitened over the whole batch, the clip, and a k1 penalty per token in the reward.

    A_t = (G_t - mean) / std over the batch, r_t = -beta k1_t + [last token] R, gamma 1.

    Source: Hu et al. 2025, arXiv:2501.03262, eqs. 1 and 8-10.
    """

    best_for = "one completion per prompt and many different prompts; hard to game by a prompt that is easy"

    sampler = GroupSampler(group_size=1)
    advantage = WhitenedReturn()
    clip = SymmetricClip(epsilon=0.2)
    aggregation = SequenceMean()
    kl = KLPenalty(estimator="k1", reward_coefficient=0.001)


class ReinforcePlusPlusBaseline(ReinforcePlusPlus):
    """REINFORCE++ with the mean of the prompt's completions taken off first, and the penalty (k2) in the loss.

    A_i = (R_i - mean_g(R)) / std over the batch of what is left; every token weighs the same.

    Source: Hu et al. 2025, arXiv:2501.03262, section 3.3; penalty and group size as OpenRLHF runs it.
    """

    best_for = "groups of completions where the batch's deviation is a steadier scale than each group's own"

    sampler = ReinforcePlusPlus.sampler.but(group_size=8)
    advantage = ReinforcePlusPlus.advantage.but(baseline="group")
    aggregation = TokenMean()
    kl = KLPenalty(estimator="k2", loss_coefficient=0.001)
