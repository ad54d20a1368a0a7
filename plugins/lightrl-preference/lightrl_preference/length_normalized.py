"""Length-normalised DPO, as Tulu 3 was trained (Lambert et al. 2024, arXiv:2411.15124)."""

from __future__ import annotations

from torch import Tensor

from lightrl import Likelihood
from lightrl_preference.dpo import DPO


class LengthNormalizedDPO(DPO):
    """DPO with log-ratios per token, so that a long completion is not preferred for its length.

    loss as in `DPO`, with h = log-ratio(y+) / |y+| - log-ratio(y-) / |y-|. The implicit reward is beta log-ratio(y) / |y|.

    Source: Lambert et al. 2024 (Tulu 3), arXiv:2411.15124, eq. 6, with its beta of section 5.
    """

    def __init__(self, beta: float = 5.0, label_smoothing: float = 0.0) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference, per token: of the order of DPO's times a length; > 0.
            label_smoothing: e, the share of pairs taken to be labelled the wrong way round; in [0, 0.5).

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(beta, label_smoothing)

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * completions.log_ratio / completions.tokens
