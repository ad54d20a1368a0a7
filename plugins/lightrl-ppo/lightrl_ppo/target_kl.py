"""The controller of PPO's penalty."""

from lightrl import KLController


class TargetKL(KLController):
    """Doubles the coefficient when the update went too far, halves it when it hardly moved.

    d < target / tolerance: factor = 1 / step; d > target tolerance: factor = step; d = mean over tokens of KL(old || new) in nats.

    Source: Schulman et al. 2017 (PPO), arXiv:1707.06347, section 4.
    """

    unit = "token"

    def __init__(self, target: float = 0.01, tolerance: float = 1.5, step: float = 2.0) -> None:
        """
        Args:
            target: nats per token and rollout; > 0. The paper tried 0.003, 0.01 and 0.03.
            tolerance: how many times the target, up or down, is still well; at least 1.
            step: the coefficient is multiplied or divided by this; > 1.

        Raises:
            ValueError: a number outside its range.
        """
        if target <= 0 or tolerance < 1 or step <= 1:
            raise ValueError(f"TargetKL needs target > 0, tolerance >= 1 and step > 1, got {target}, {tolerance} and {step}")
        self.target, self.tolerance, self.step = target, tolerance, step

    def factor(self, kl: float, rows: int) -> float:
        if kl < self.target / self.tolerance:
            return 1 / self.step
        return self.step if kl > self.target * self.tolerance else 1.0
