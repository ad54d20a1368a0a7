"""The advantage of what is simply to be repeated."""

from __future__ import annotations

import torch

from lightrl import Advantage, Advantages, Experience, broadcast_to_tokens


class Imitation(Advantage):
    """Every completion that carries loss is made likelier, all by the same.

    A_i = 1; with `PolicyGradient` the loss is the negative log-likelihood of the rows that the token weight keeps.

    Source: Dong et al. 2023 (RAFT), arXiv:2304.06767, algorithm 1, step 3.
    """

    imitates = True
    against = "nothing: what was kept is imitated"

    def compute(self, experience: Experience) -> Advantages:
        return Advantages(broadcast_to_tokens(torch.ones_like(experience.rewards), experience))
