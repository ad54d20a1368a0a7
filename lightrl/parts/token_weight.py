"""Token weights: which rows or tokens carry how much loss."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from lightrl.parts.base import Part
from lightrl.types import Experience


class TokenWeight(Part):
    """Decides what each token counts in the loss; weighted counts enter the denominators."""

    @abstractmethod
    def weights(self, experience: Experience) -> Tensor:
        """`[N, L]` at least 0; 0 masks. The core multiplies by the response mask and drops rows that are not scorable."""


class MaskTruncated(TokenWeight):
    """Overlong filtering: a completion cut at the token limit carries no loss.

    The whole row is masked, not its tail; its reward stays in the statistics of its group.

    Source: Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.4.
    """

    def weights(self, experience: Experience) -> Tensor:
        kept = ~experience.truncated
        return torch.ones_like(experience.token_rewards) * kept[:, None]
