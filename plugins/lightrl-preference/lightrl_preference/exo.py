"""EXO (Ji et al. 2024, arXiv:2402.00856): DPO with the divergence the other way round."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lightrl_preference.dpo import DPO


class EXO(DPO):
    """Efficient exact optimisation on pairs: the reverse KL from the policy's preference to the labels, which are smoothed.

    loss = q log(q / (1 - e)) + (1 - q) log((1 - q) / e), with q = sigmoid(beta h) and h = log-ratio(y+) - log-ratio(y-). It is 0
    where the policy prefers y+ with probability 1 - e. DPO with the same e is the KL in the other direction, but for a constant. The
    implicit reward is beta log-ratio(y).

    Source: Ji et al. 2024, arXiv:2402.00856, eq. 16; e as in TRL, which takes 1e-3 where the paper states none.
    """

    def __init__(self, beta: float = 0.1, label_smoothing: float = 1e-3) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.
            label_smoothing: e, the probability of the worse completion under the labels; in (0, 0.5).

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(beta, label_smoothing)
        if not label_smoothing > 0:
            raise ValueError(f"EXO needs 0 < label_smoothing < 0.5, since the KL to hard labels is infinite, got {label_smoothing}")

    def of_margin(self, margin: Tensor) -> Tensor:
        right, wrong = F.logsigmoid(margin), F.logsigmoid(-margin)
        e = self.label_smoothing
        return torch.sigmoid(margin) * (right - math.log1p(-e)) + torch.sigmoid(-margin) * (wrong - math.log(e))
