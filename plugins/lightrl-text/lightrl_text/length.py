"""A penalty on completions that are longer or shorter than wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lightrl import BatchReward

if TYPE_CHECKING:
    from torch import Tensor

    from lightrl import Rollout


class Length(BatchReward):
    """Completions lose in proportion to how far their length is from a target.

    R = -long min(1, (|y| - target - tolerance) / target) above the target, -short min(1, (target - tolerance - |y|) / target) below, and
    0 within the tolerance.
    """

    def __init__(
        self,
        target: int,
        tolerance: int = 0,
        long: float = 1.0,
        short: float = 1.0,
        unit: Literal["tokens", "characters"] = "tokens",
        **kwargs: Any,
    ) -> None:
        """
        Args:
            target: the length that costs nothing, in units; above 0.
            tolerance: how far from it still costs nothing, in units; at least 0.
            long: what a completion of twice the target and the tolerance loses; 0: longer is as good.
            short: what an empty completion loses, without a tolerance; 0: shorter is as good.
            unit: `tokens` counts those that were sampled, EOS included; `characters` those of the text.
            **kwargs: weight and the other arguments of every reward.

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(**kwargs)
        if target <= 0 or tolerance < 0 or long < 0 or short < 0:
            raise ValueError(
                f"Length needs target > 0 and tolerance, long, short >= 0, got target={target}, tolerance={tolerance}, long={long}, "
                f"short={short}"
            )
        self.target, self.tolerance, self.long, self.short, self.unit = target, tolerance, long, short, unit

    def score(self, rollout: Rollout) -> Tensor:
        lengths = rollout.response_lengths
        if self.unit == "characters":
            lengths = lengths.new_tensor([len(text) for text in rollout.completions])
        distance = (lengths.double() - self.target) / self.target
        free = self.tolerance / self.target
        return (-self.long * (distance - free).clamp(0, 1) - self.short * (-distance - free).clamp(0, 1)).float()
