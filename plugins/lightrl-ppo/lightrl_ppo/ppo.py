"""PPO (Schulman et al. 2017, arXiv:1707.06347), clipped and with an adaptive penalty."""

from lightrl import ActorCritic, KLPenalty, NoClip
from lightrl_ppo.target_kl import TargetKL


class PPO(ActorCritic):
    """Proximal policy optimisation of a language model.

    Advantages by GAE (gamma 1, lambda 0.95, whitened), the clipped surrogate (eq. 7), a clipped value loss, the mean over all
    tokens, several passes over each rollout, and a k1 penalty per token against the reference in the reward.

    Source: Schulman et al. 2017, arXiv:1707.06347; for language models Ziegler et al. 2019, arXiv:1909.08593; defaults of TRL.
    """

    best_for = "dense or learnt rewards, where a critic can tell the tokens apart; twice the memory of the group algorithms"

    kl = KLPenalty(estimator="k1", reward_coefficient=0.05)
    epochs = 4


class PPOPenalty(ActorCritic):
    """PPO with an adaptive KL penalty in place of the clip.

    J_t = r_t A_t - beta KL(old || pi), beta halved or doubled after each rollout as the KL per token asks.

    Source: Schulman et al. 2017, arXiv:1707.06347, section 4, eq. 8.
    """

    best_for = "comparisons with PPO's paper, which found the clip to do better"

    clip = NoClip()
    """How far one update may go; here the penalty holds the policy."""
    kl = KLPenalty(estimator="k3", loss_coefficient=1.0, against="old", controller=TargetKL())
    """The penalty, against the policy that sampled."""
    epochs = 4
