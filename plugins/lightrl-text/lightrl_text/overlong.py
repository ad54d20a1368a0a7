"""A length penalty that sets in gradually."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightrl import BatchReward

if TYPE_CHECKING:
    # the package's other rewards run in worker processes, which start faster without torch
    from torch import Tensor

    from lightrl import Rollout


class SoftOverlong(BatchReward):
    """Soft overlong punishment: completions near the token limit lose up to 1.

    R(y) = 0 if |y| <= max_length - cache, (max_length - cache - |y|) / cache up to max_length, and -1 beyond; |y| counts the
    sampled tokens of all turns, EOS included.

    Source: Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.4, eq. 13.
    """

    def __init__(self, max_length: int, cache: int, **kwargs: Any) -> None:
        """
        Args:
            max_length: L_max in tokens: from here on the penalty is whole. Usually the engine's `max_new_tokens`.
            cache: L_cache in tokens: how far below it the penalty begins; in (0, max_length].
            **kwargs: weight and the other arguments of every reward.

        Raises:
            ValueError: cache outside its range.
        """
        super().__init__(**kwargs)
        if not 0 < cache <= max_length:
            raise ValueError(f"SoftOverlong needs 0 < cache <= max_length, got cache={cache}, max_length={max_length}")
        self.max_length, self.cache = max_length, cache

    def score(self, rollout: Rollout) -> Tensor:
        over = rollout.response_lengths.double() - (self.max_length - self.cache)
        return -(over / self.cache).clamp(0, 1).float()
