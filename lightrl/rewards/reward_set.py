"""All rewards of a run together: scores, weights, and the outcome of each row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from typing import Any

import torch
from torch import Tensor

from lightrl.ops.moments import row_values
from lightrl.parts.reward import BatchReward, Reward, RowReward
from lightrl.rewards.components import on_rows, on_tokens, shares
from lightrl.rewards.guarded_reward import GuardedReward
from lightrl.rewards.row_call import FACTS, RESERVED, named_arguments
from lightrl.rewards.scoring import Scoring
from lightrl.types import JSON, Prompt, Rollout, ScoredRollout, Statistics


class RewardSet:
    """Named rewards; the policy is trained on their weighted sum.

    Methods take scored rollouts of whole groups, with rewards normalised as each says, or, for an evaluation of single completions, raw.
    """

    def __init__(self, rewards: Mapping[str, Reward], needed: bool = True) -> None:
        """
        Args:
            needed: the policy learns from them; False: there may be none, or none with a weight, and a row needs no score.

        Raises:
            ValueError: there is none, one is no reward, a weight is not finite, all weights are 0, or a gate leads nowhere.
        """
        if needed and not rewards:
            raise ValueError("there is no reward: name at least one, for example rewards: {correct: ExactMatch}")
        self._guarded = {name: GuardedReward(name, reward) for name, reward in rewards.items()}
        for name, reward in rewards.items():
            if not math.isfinite(reward.weight):
                raise ValueError(f"reward {name!r} has the weight {reward.weight}, expected a finite number")
        if needed and not any(r.weight and (r.schedule is None or r.schedule.start or r.schedule.end) for r in rewards.values()):
            raise ValueError(f"every reward ({', '.join(rewards)}) has weight 0, so there is nothing to learn from: give one a weight")
        self.rewards = dict(rewards)
        self.rollouts = 0
        self.needed = needed
        self._stages = _stages(rewards)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each reward in this rollout."""
        return {name: _weight(reward, self.rollouts) for name, reward in self.rewards.items()}

    def check(self, columns: Set[str], prompts: Iterable[tuple[str, Prompt]] = ()) -> None:
        """Refuse rewards that cannot work, and data that lack a column that one wants, or have prompts that one can never score.

        Args:
            columns: names that every prompt has.
            prompts: each with the place where it stands.

        Raises:
            ValueError: a reward's required argument is neither prompt, completion, answer nor a column, it refuses a prompt (the message
                names the first and counts them), or it cannot be sent to its workers.
        """
        for name, reward in self.rewards.items():
            reward.check(columns)
            self._guarded[name].place.check()
            wanted = (named_arguments(reward) or {}) if isinstance(reward, RowReward) else {}
            for argument, required in wanted.items():
                if argument in FACTS & columns:
                    raise ValueError(
                        f"reward {name!r} ({type(reward).__name__}) wants the argument {argument!r}, which is both a fact of the episode "
                        "and a column of the data: rename the column in the prompt source"
                    )
                if required and argument not in RESERVED | columns:
                    raise ValueError(
                        f"reward {name!r} ({type(reward).__name__}) wants the argument {argument!r}, which is neither prompt, completion, "
                        f"answer nor a column that every prompt has. Columns: {', '.join(sorted(columns)) or 'none'}. "
                        "Rename the argument, give it a default, or keep the column in the prompt source"
                    )
        self._check_prompts(prompts)

    def _check_prompts(self, prompts: Iterable[tuple[str, Prompt]]) -> None:
        rows = {name: reward for name, reward in self.rewards.items() if isinstance(reward, RowReward) and reward.gate is None}
        asked = {name: reward for name, reward in rows.items() if type(reward).check_prompt is not RowReward.check_prompt}
        refused: dict[str, list[str]] = {}
        for place, prompt in prompts if asked else ():
            for name, reward in asked.items():
                try:
                    reward.check_prompt(prompt)
                except ValueError as error:
                    refused.setdefault(name, []).append(f"{place}: {error}")
        for name, reasons in refused.items():
            raise ValueError(f"reward {name!r} cannot score {len(reasons)} of the prompts, the first at {reasons[0]}")

    def wanting(self, argument: str) -> list[str]:
        """Names of the rewards that must be given this argument."""
        rows = {name: reward for name, reward in self.rewards.items() if isinstance(reward, RowReward)}
        return [name for name, reward in rows.items() if (named_arguments(reward) or {}).get(argument)]

    def start(self) -> None:
        """Start worker processes and event loops in the background, so that the first rollout does not wait for them."""
        for guarded in self._guarded.values():
            guarded.place.start()

    def close(self) -> None:
        """End worker processes and event loops; `score` starts them again."""
        for guarded in self._guarded.values():
            guarded.place.close()

    def counts(self) -> dict[str, dict[str, float]]:
        """Per reward, the numbers that it counts itself."""
        return {name: guarded.counts() for name, guarded in self._guarded.items()}

    def submit(self, rollout: Rollout) -> Scoring:
        """Begin to score; rewards in other processes and in event loops work on while the caller does something else."""
        return Scoring(self._guarded, self._stages, self.weights, rollout, self.needed)

    def score(self, rollout: Rollout) -> ScoredRollout:
        """The rollout with each reward's raw values and outcomes, failures logged; see `Scoring.result`."""
        scoring = self.submit(rollout)
        scored = scoring.result()
        scoring.warn()
        return scored

    def spent(self) -> str | None:
        """A complaint, if a reward with a weight has failed more often than its error budget allows."""
        for name, weight in self.weights.items():
            complaint = self._guarded[name].budget.spent() if weight != 0 else None
            if complaint is not None:
                return f"reward {name!r} {complaint}\nMend it, raise its max_error_rate or error_window, or give it the weight 0"
        return None

    def broken(self) -> dict[str, str]:
        """Why each reward with a weight that works on this machine has failed on every row so far, where that was always the same."""
        local = {name: guarded for name, guarded in self._guarded.items() if guarded.reward.runs != "async" and self.weights[name] != 0}
        failures = {name: guarded.budget.only_failure() for name, guarded in local.items()}
        return {name: failure for name, failure in failures.items() if failure is not None}

    def after_rollout(self) -> None:
        """Let the schedules go on, once a rollout has been learnt from."""
        self.rollouts += 1

    def observe(self, numbers: Mapping[str, float]) -> None:
        """Tell each batch reward the reduced values of its statistics.

        Args:
            numbers: of one rollout, reduced over rows and ranks, by the names under which they are logged.
        """
        for name, reward in self.rewards.items():
            if isinstance(reward, BatchReward):
                prefix = f"rewards/{name}/"
                reward.observe({key.removeprefix(prefix): number for key, number in numbers.items() if key.startswith(prefix)})

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
            given = on_tokens(name, self.rewards[name], scored)
            total += weight * torch.where(given.isnan(), 0.0, given)
            ends |= ~given.isnan()
        return total, ends

    def statistics(self, scored: ScoredRollout, held_out: bool = False) -> Statistics:
        """Scores and contributions of each reward per row, to be reduced by their means.

        `rewards/{name}/mean`: the raw score (a row's steps added up), NaN without one. `std`: their population standard deviation
        on this rank. `weight`. `contribution`: its part of the row's reward; over all names they add up to the reward.
        `share`: its part of the differences between the rows of a group on this rank, and so of the advantage; over all names they add up
        to 1.
        """
        rows: dict[str, Tensor] = {}
        brought = self.contributions(scored, held_out)
        for name, reward in self.rewards.items():
            weight = _weight(reward, None if held_out else self.rollouts)
            raw = row_values(scored.reward_parts[name])
            rows[f"rewards/{name}/mean"] = raw
            rows[f"rewards/{name}/std"] = torch.where(raw.isnan(), math.nan, _spread(raw))
            rows[f"rewards/{name}/weight"] = torch.full_like(raw, weight)
            rows[f"rewards/{name}/contribution"] = brought[name]
        for name, share in shares(brought, scored.group, scored.scorable).items():
            rows[f"rewards/{name}/share"] = torch.full_like(brought[name], share)
        return rows

    def contributions(self, scored: ScoredRollout, held_out: bool = False, rollouts: int | None = None) -> dict[str, Tensor]:
        """`[N]` per reward: its part of the row's reward, gated, normalised and weighted; NaN where the row is not scorable.

        Args:
            held_out: not normalised, and with the weights at the end of their schedules, so that policies of different rollouts compare.
            rollouts: that were learnt from before this one, for weights on a schedule; None: all so far.
        """
        brought: dict[str, Tensor] = {}
        for name, reward in self.rewards.items():
            weight = _weight(reward, None if held_out else self.rollouts if rollouts is None else rollouts)
            brought[name] = weight * on_rows(name, reward, scored, normalized=not held_out)
        return brought

    def row_rewards(self, scored: ScoredRollout, held_out: bool = False) -> Tensor:
        """`[N]` the weighted sum of the rewards of each row, also of one without response tokens; NaN where the row is not scorable."""
        brought = list(self.contributions(scored, held_out).values())
        return torch.stack(brought).sum(0) if brought else torch.zeros_like(scored.rollout_logprobs[:, 0])

    def state_dict(self, per_rank: bool = False) -> dict[str, JSON]:
        """The progress of the schedules, and the state of every reward that keeps one.

        Args:
            per_rank: the state that differs between ranks instead: the completions that each error budget covers.
        """
        if per_rank:
            return {"budgets": {name: guarded.budget.state_dict() for name, guarded in self._guarded.items()}}
        states = {name: reward.state_dict() for name, reward in self.rewards.items()}
        return {"rollouts": self.rollouts, "rewards": {name: state for name, state in states.items() if state}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave; a ValueError if it has state for a reward that is not here."""
        unknown = sorted(set(state["rewards"]) - set(self.rewards))
        if unknown:
            raise ValueError(f"the checkpoint has state for the rewards {unknown}, but these are: {', '.join(self.rewards)}")
        self.rollouts = int(state["rollouts"])
        for name, part in state["rewards"].items():
            self.rewards[name].load_state_dict(part)
        for name, window in state.get("budgets", {}).items():
            # one that is gone may fail no more, and a new one has not failed yet
            if name in self._guarded:
                self._guarded[name].budget.load_state_dict(window)


def _stages(rewards: Mapping[str, Reward]) -> list[list[str]]:
    """The names in the order in which they can be asked: a gate is in an earlier stage than the rewards behind it."""
    for name, reward in rewards.items():
        if reward.gate is not None and reward.gate not in rewards:
            raise ValueError(f"reward {name!r} has the gate {reward.gate!r}, which is no reward here. There are: {', '.join(rewards)}")
    order: list[list[str]] = []
    settled: set[str] = set()
    while len(settled) < len(rewards):
        stage = [n for n, r in rewards.items() if n not in settled and (r.gate is None or r.gate in settled)]
        if not stage:
            circle = ", ".join(f"{n!r} (gate {r.gate!r})" for n, r in rewards.items() if n not in settled)
            raise ValueError(f"these rewards wait for each other and would never be asked: {circle}. Take one gate away")
        order.append(stage)
        settled.update(stage)
    return order


def _weight(reward: Reward, rollouts: int | None) -> float:
    """The weight after so many rollouts; None: at the end of the schedule."""
    if reward.schedule is None:
        return reward.weight
    return reward.weight * (reward.schedule.end if rollouts is None else reward.schedule.at(rollouts))


def _spread(raw: Tensor) -> Tensor:
    values = raw[~raw.isnan()].double()
    return (values.std(correction=0) if values.numel() else values.sum()).to(raw.dtype)
