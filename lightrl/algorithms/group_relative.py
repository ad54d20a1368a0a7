"""The family of algorithms without a critic that compare completions of one prompt."""

from __future__ import annotations

from lightrl.algorithms.algorithm import Algorithm
from lightrl.parts.advantage import GroupNormalized
from lightrl.parts.aggregation import SequenceMean
from lightrl.parts.clip import SymmetricClip
from lightrl.parts.sampler import GroupSampler


class GroupRelative(Algorithm):
    """The base of critic-free group algorithms: rewards compared within the completions of one prompt."""

    sampler = GroupSampler(group_size=8)
    advantage = GroupNormalized()
    clip = SymmetricClip(epsilon=0.2)
    aggregation = SequenceMean()
