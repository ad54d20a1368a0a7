"""VAPO's advantage: lambda grows with the length of the completion, and the critic learns from whole returns."""

import torch

from lightrl import Advantage, Advantages, Experience, generalised_advantages, whiten


class LengthAdaptiveGAE(Advantage):
    """Decoupled, length-adaptive generalised advantage estimation.

    A is GAE with lambda = clip(1 - 1 / (alpha l), 0, 1), l the tokens of the response; returns are GAE with lambda 1 plus V,
    that is, what followed until the end of the row.

    Source: Yue et al. 2025 (VAPO), arXiv:2504.05118, sections 4.1 and 4.2.
    """

    baseline = "values"
    level = "token"

    def __init__(self, alpha: float = 0.05, gamma: float = 1.0, whitened: bool = True) -> None:
        """
        Args:
            alpha: how fast lambda comes near 1 with the length; > 0. Rows of at most 1 / alpha tokens have lambda 0.
            gamma: discount per token, in [0, 1].
            whitened: give the advantages zero mean and unit variance over all tokens of all ranks.

        Raises:
            ValueError: an argument outside its range.
        """
        if alpha <= 0 or not 0 <= gamma <= 1:
            raise ValueError(f"LengthAdaptiveGAE needs alpha > 0 and gamma in [0, 1], got alpha={alpha}, gamma={gamma}")
        self.alpha, self.gamma, self.whitened = alpha, gamma, whitened

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"values"})

    def compute(self, experience: Experience) -> Advantages:
        if experience.values is None:
            raise ValueError("LengthAdaptiveGAE needs the values of a critic: give the algorithm one, for example critic: ValueHead")
        mask = experience.response_mask & experience.scorable[:, None]
        rewards, values = experience.token_rewards, experience.values
        lam = (1 - 1 / (self.alpha * mask.sum(1).clamp(min=1).to(values.dtype))).clamp(0, 1)
        raw = generalised_advantages(rewards, values, mask, self.gamma, lam)
        to_the_end = generalised_advantages(rewards, values, mask, self.gamma, 1.0)
        returns = torch.where(mask, to_the_end + values, 0.0)
        return Advantages(whiten(raw, mask, ranks=experience.ranks) if self.whitened else raw, returns, {"vapo/lambda": lam})
