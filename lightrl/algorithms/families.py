"""Two families of algorithms: those that compare completions of one prompt, and those with a critic."""

from __future__ import annotations

from lightrl.algorithms.algorithm import Algorithm
from lightrl.parts.advantage import GAE, GroupNormalized
from lightrl.parts.aggregation import SequenceMean, TokenMean
from lightrl.parts.clip import SymmetricClip
from lightrl.parts.critic import ValueHead
from lightrl.parts.sampler import GroupSampler


class GroupRelative(Algorithm):
    """The base of critic-free group algorithms: rewards compared within the completions of one prompt."""

    sampler = GroupSampler(group_size=8)
    advantage = GroupNormalized()
    clip = SymmetricClip(epsilon=0.2)
    aggregation = SequenceMean()


class ActorCritic(Algorithm):
    """The base of algorithms with a critic: rewards compared with the return that was expected before each token."""

    sampler = GroupSampler(group_size=1)
    advantage = GAE()
    critic = ValueHead()
    """Predicts the return; null with an advantage that needs no values."""
    clip = SymmetricClip(epsilon=0.2)
    aggregation = TokenMean()
