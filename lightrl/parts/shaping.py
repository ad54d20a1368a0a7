"""Reward shaping: what becomes of the score before it is compared with anything?"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor

from lightrl.ops.moments import row_sum
from lightrl.parts.base import Part
from lightrl.ranges import NonNegative, Positive
from lightrl.rows import last_position
from lightrl.types import ScoredRollout, WithStatistics


class RewardShaping(Part):
    """Changes the token rewards of each row, before a KL in the reward and the advantages."""

    @abstractmethod
    def rewards(self, scored: ScoredRollout, token_rewards: Tensor) -> Tensor | WithStatistics:
        """`[N, L]` in place of the given ones; 0 outside the response and on rows that are not scorable.

        Args:
            scored: rows of this rank, raw reward parts included.
            token_rewards: `[N, L]`, the weighted sum of the parts on the tokens that earned them.
        """


class OutcomeShaping(RewardShaping):
    """A limit on the score of a row, a fine for answers without an end, and the place where the score is paid.

    R' = clip(R, -limit, limit) - missing_eos_penalty [cut at the token limit], with R the sum of a row's rewards; paid on the last
    response token, or R' / L_i on each of the L_i response tokens.

    Source: Ziegler et al. 2019, arXiv:1909.08593, section 2.2 (penalty); TRL's `missing_eos_penalty`; DeepSpeed-Chat (limit).
    """

    def __init__(
        self,
        missing_eos_penalty: NonNegative = 0.0,
        limit: Positive | None = None,
        paid: Literal["last_token", "every_token"] = "last_token",
    ) -> None:
        """
        Args:
            missing_eos_penalty: taken from the score of a completion with the finish reason `length`; at least 0.
            limit: the score is kept within plus and minus this; > 0. null: as it is.
            paid: where the reward goes: all of it on the last response token, or equal shares on every response token.

        Raises:
            ValueError: a number outside its range, or the part would change nothing.
        """
        if missing_eos_penalty == 0 and limit is None and paid == "last_token":
            raise ValueError("OutcomeShaping would change nothing: give it a missing_eos_penalty, a limit or paid: every_token")
        self.missing_eos_penalty, self.limit, self.paid = missing_eos_penalty, limit, paid

    def rewards(self, scored: ScoredRollout, token_rewards: Tensor) -> WithStatistics:
        mask = scored.response_mask & scored.scorable[:, None]
        score = row_sum(token_rewards, mask)
        if self.limit is not None:
            score = score.clamp(-self.limit, self.limit)
        score = score - self.missing_eos_penalty * scored.truncated.to(score.dtype)
        if self.paid == "every_token":
            shaped = torch.where(mask, (score / mask.sum(1).clamp(min=1))[:, None], 0.0)
        else:
            last = torch.arange(mask.shape[1], device=mask.device) == last_position(mask)[:, None]
            shaped = torch.where(last, score[:, None], 0.0)
        paid_out = torch.where(scored.scorable, score, torch.nan)
        return WithStatistics(shaped.to(token_rewards.dtype), {"shaped_reward": paid_out})
