"""All rewards of a run together: scores, weights, and what became of each."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Set
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from lightrl.ops.masked import row_sum
from lightrl.parts.reward import BatchReward, Reward, RowReward
from lightrl.rewards.calls import RESERVED, call_rows, describe, named_arguments
from lightrl.rewards.values import Scored, all_failed, from_answers, from_tensor, on_last_token
from lightrl.types import JSON, Outcome, Rollout, ScoredRollout, Statistics

log = logging.getLogger(__name__)

FAILED = (Outcome.ERROR, Outcome.TIMEOUT)
ANSWERED = (Outcome.VALUE, Outcome.GATED)


class RewardSet:
    """Named rewards; their weighted sum is what the policy is trained on."""

    def __init__(self, rewards: Mapping[str, Reward]) -> None:
        """
        Args:
            rewards: by the names under which they are logged.

        Raises:
            ValueError: there is none, one is no reward, a weight is not finite, or all weights are 0.
        """
        if not rewards:
            raise ValueError("there is no reward: name at least one, for example rewards: {correct: ExactMatch}")
        for name, reward in rewards.items():
            if not isinstance(reward, (RowReward, BatchReward)):
                raise ValueError(f"reward {name!r} is a {type(reward).__name__}, expected a RowReward or a BatchReward")
            if not math.isfinite(reward.weight):
                raise ValueError(f"reward {name!r} has the weight {reward.weight}, expected a finite number")
        if all(reward.weight == 0 for reward in rewards.values()):
            raise ValueError(f"every reward ({', '.join(rewards)}) has weight 0, so there is nothing to learn from: give one a weight")
        self.rewards = dict(rewards)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each reward."""
        return {name: reward.weight for name, reward in self.rewards.items()}

    def check(self, columns: Set[str]) -> None:
        """Whether the data have what the rewards want.

        Args:
            columns: names that every prompt has.

        Raises:
            ValueError: a reward's required argument is neither prompt, completion, answer nor a column.
        """
        for name, reward in self.rewards.items():
            wanted = (named_arguments(reward) or {}) if isinstance(reward, RowReward) else {}
            for argument, required in wanted.items():
                if required and argument not in RESERVED | columns:
                    raise ValueError(
                        f"reward {name!r} ({type(reward).__name__}) wants the argument {argument!r}, which is neither prompt, completion, "
                        f"answer nor a column that every prompt has. Columns: {', '.join(sorted(columns)) or 'none'}. "
                        "Rename the argument, give it a default, or keep the column in the prompt source"
                    )

    def score(self, rollout: Rollout) -> ScoredRollout:
        """The rollout with each reward's raw values and outcomes.

        A row is scorable if every reward with a weight answered or abstained, and at least one answered. Failures are logged
        in one line per reward.

        Raises:
            ValueError: a reward returned something of the wrong type or shape.
        """
        results = {name: self._ask(name, reward, rollout) for name, reward in self.rewards.items()}
        for name, result in results.items():
            if result.error is not None:
                failed = int(_is(result.outcome, FAILED).sum())
                log.warning("reward %r failed on %d of %d rows; first: %s", name, failed, len(rollout), result.error)
        weighted = [results[name].outcome for name, weight in self.weights.items() if weight != 0]
        answered = torch.stack([_is(outcome, ANSWERED) for outcome in weighted]).any(0)
        failed_rows = torch.stack([_is(outcome, FAILED) for outcome in weighted]).any(0)
        return ScoredRollout(
            **{f.name: getattr(rollout, f.name) for f in fields(Rollout)},
            reward_parts={name: result.part for name, result in results.items()},
            outcomes={name: result.outcome for name, result in results.items()},
            scorable=answered & ~failed_rows,
        )

    def token_rewards(self, scored: ScoredRollout) -> tuple[Tensor, Tensor]:
        """The weighted sum of the parts on the tokens that earned them.

        A `[N]` part sits on the last response token, an `[N, L]` part where it is not NaN; rows that are not scorable and rows
        without a response get nothing.

        Returns:
            `[N, L]` f32 rewards, and `[N, L]` bool: a reward with a weight was given at this token, 0 included.
        """
        total = torch.zeros_like(scored.rollout_logprobs)
        ends = torch.zeros_like(scored.response_mask)
        for name, weight in self.weights.items():
            if weight == 0:
                continue
            given = self._given(scored, name)
            total += weight * torch.where(given.isnan(), 0.0, given)
            ends |= ~given.isnan()
        return total, ends

    def statistics(self, scored: ScoredRollout) -> Statistics:
        """What each reward did, per row, to be reduced by their means.

        `rewards/{name}/mean`: the raw score (a row's steps added up), NaN without one. `std`: their population standard deviation
        on this rank. `weight`. `contribution`: what the row's reward got from it; over all names they add up to the reward.
        `failed`, `abstained`: 1 where it did.
        """
        rows: dict[str, Tensor] = {}
        for name, weight in self.weights.items():
            part, outcome = scored.reward_parts[name], scored.outcomes[name]
            raw = part if part.dim() == 1 else torch.where(_is(outcome, ANSWERED), part.nansum(1), math.nan)
            given = self._given(scored, name)
            rows[f"rewards/{name}/mean"] = raw
            rows[f"rewards/{name}/std"] = torch.where(raw.isnan(), math.nan, _spread(raw))
            rows[f"rewards/{name}/weight"] = torch.full_like(raw, weight)
            contribution = weight * row_sum(given, ~given.isnan())
            rows[f"rewards/{name}/contribution"] = torch.where(scored.scorable, contribution, math.nan)
            rows[f"rewards/{name}/failed"] = _is(outcome, FAILED).float()
            rows[f"rewards/{name}/abstained"] = _is(outcome, (Outcome.ABSTAINED,)).float()
        return rows

    def state_dict(self) -> dict[str, JSON]:
        """The state of every reward that keeps one."""
        states = {name: reward.state_dict() for name, reward in self.rewards.items()}
        return {name: state for name, state in states.items() if state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave.

        Raises:
            ValueError: it has state for a reward that is not here.
        """
        unknown = sorted(set(state) - set(self.rewards))
        if unknown:
            raise ValueError(f"the checkpoint has state for the rewards {unknown}, but these are: {', '.join(self.rewards)}")
        for name, part in state.items():
            self.rewards[name].load_state_dict(part)

    def _ask(self, name: str, reward: Reward, rollout: Rollout) -> Scored:
        if isinstance(reward, RowReward):
            return from_answers(name, call_rows(reward, rollout), rollout)
        assert isinstance(reward, BatchReward)
        try:
            value = reward.score(rollout)
        except Exception as error:
            return all_failed(describe(error), rollout)
        return from_tensor(name, value, rollout)

    def _given(self, scored: ScoredRollout, name: str) -> Tensor:
        part = scored.reward_parts[name]
        on_tokens = on_last_token(part, scored.response_mask) if part.dim() == 1 else part
        return torch.where(scored.scorable[:, None], on_tokens, math.nan)


def _is(outcome: Tensor, kinds: tuple[Outcome, ...]) -> Tensor:
    return torch.isin(outcome, torch.tensor([int(kind) for kind in kinds], device=outcome.device))


def _spread(raw: Tensor) -> Tensor:
    values = raw[~raw.isnan()].double()
    return (values.std(correction=0) if values.numel() else values.sum()).to(raw.dtype)
