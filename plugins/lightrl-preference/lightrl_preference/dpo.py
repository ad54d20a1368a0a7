"""DPO (Rafailov et al. 2023, arXiv:2305.18290) and its variants for labels that may be wrong."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from lightrl import Likelihood
from lightrl_preference.implicit_reward import ImplicitReward
from lightrl_preference.margin import MarginObjective


class DPO(ImplicitReward, MarginObjective):
    """Direct preference optimisation: the policy as its own reward model.

    loss = -(1 - e) log sigmoid(beta h) - e log sigmoid(-beta h), with h = log-ratio(y+) - log-ratio(y-) and
    log-ratio(y) = log pi(y | x) - log pi_ref(y | x), summed over the tokens of the completion. e = 0 is DPO; e > 0 is cDPO,
    which takes a share e of the pairs to be labelled the wrong way round. The implicit reward is beta log-ratio(y).

    Source: Rafailov et al. 2023, arXiv:2305.18290, eq. 7; Mitchell 2023, "A note on DPO with noisy preferences", eq. 3.
    """

    def __init__(self, beta: float = 0.1, label_smoothing: float = 0.0) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.
            label_smoothing: e, the share of pairs taken to be labelled the wrong way round; in [0, 0.5).

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(beta)
        if not 0 <= label_smoothing < 0.5:
            raise ValueError(f"{type(self).__name__} needs 0 <= label_smoothing < 0.5, got {label_smoothing}")
        self.label_smoothing = label_smoothing

    def of_margin(self, margin: Tensor) -> Tensor:
        right, wrong = -F.logsigmoid(margin), -F.logsigmoid(-margin)
        return (1 - self.label_smoothing) * right + self.label_smoothing * wrong


class ReferenceFreeDPO(DPO):
    """DPO with a uniform reference, so that none is held in memory.

    loss as in `DPO`, with h = log pi(y+ | x) - log pi(y- | x). The implicit reward is beta log pi(y | x).

    Source: Rafailov et al. 2023, arXiv:2305.18290, eq. 7 with pi_ref constant; Xu et al. 2024 (CPO), arXiv:2401.08417, eq. 3.
    """

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * completions.logprob


class RobustDPO(DPO):
    """DPO with a loss whose mean over flipped labels is DPO's on true ones.

    loss = ((1 - e) l(h) - e l(-h)) / (1 - 2 e), with l(h) = -log sigmoid(beta h); it may be negative.

    Source: Chowdhury et al. 2024, arXiv:2403.00409, section 3.
    """

    def __init__(self, beta: float = 0.1, label_smoothing: float = 0.1) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.
            label_smoothing: e, the share of pairs that are labelled the wrong way round; in [0, 0.5).

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(beta, label_smoothing)

    def of_margin(self, margin: Tensor) -> Tensor:
        right, wrong, e = -F.logsigmoid(margin), -F.logsigmoid(-margin), self.label_smoothing
        return ((1 - e) * right - e * wrong) / (1 - 2 * e)
