"""Gates, normalisation, schedules, shares, caches and error budgets, by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lightrl import BatchReward, Function, LinearWeight, Prompt, Rollout, RowReward
from lightrl.rewards.components import shares, z_scores
from lightrl.rewards.reward_set import RewardSet
from lightrl.types import Outcome

V, A, G, E = Outcome.VALUE, Outcome.ABSTAINED, Outcome.GATED, Outcome.ERROR
NAN = math.nan


class Tells(RowReward):
    """The number that the completion is; None of `none`; `bad` raises."""

    runs = "inline"

    def __init__(self, factor: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = factor
        self._asked: list[str] = []

    def score(self, prompt: Prompt, completion: str) -> float | None:
        self._asked.append(completion)
        return None if completion == "none" else self.factor * float(completion)


class TellsAll(BatchReward):
    """As `Tells`, of rows or of tokens."""

    def __init__(self, tokens: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tokens = tokens
        self._asked: list[str] = []

    def score(self, rollout: Rollout) -> Tensor:
        self._asked += rollout.completions
        values = torch.tensor([float(text) for text in rollout.completions])
        return torch.where(rollout.response_mask, values[:, None], NAN) if self.tokens else values


def test_behind_a_closed_gate_nobody_is_asked_and_the_score_is_0(reward_set: Any, texts: Any) -> None:
    style, model = Tells(factor=10.0, gate="correct"), TellsAll(gate="correct", gate_above=1.0)
    steps = TellsAll(tokens=True, gate="correct", gate_above=1.0)
    rewards = reward_set({"style": style, "model": model, "steps": steps, "correct": Tells()})
    scoring = rewards.submit(texts(["0", "1", "2", "none", "bad"]))
    scored = scoring.result()
    assert scored.outcomes["style"].tolist() == [G, V, V, A, E]
    assert scored.outcomes["model"].tolist() == [G, G, V, A, E]
    assert scored.reward_parts["style"][:3].tolist() == [0.0, 10.0, 20.0]
    assert scored.reward_parts["model"][:3].tolist() == [0.0, 0.0, 2.0]
    assert scored.reward_parts["steps"][:3].nan_to_num(-9.0).tolist() == [[-9, -9, 0], [-9, -9, 0], [-9, 2, 2]]
    assert style._asked == ["1", "2"]
    assert model._asked == ["2"]
    assert scored.scorable.tolist() == [True, True, True, False, False]
    numbers = scoring.statistics()
    assert numbers["rewards/style/gated"].tolist() == [1, 0, 0, 0, 0]
    assert numbers["rewards/style/failed"].tolist() == [0, 0, 0, 0, 1]


def test_a_model_behind_a_gate_that_is_shut_for_all_is_not_asked(reward_set: Any, texts: Any) -> None:
    model = TellsAll(gate="correct")
    scored = reward_set({"model": model, "correct": Tells()}).score(texts(["0", "-1"]))
    assert scored.outcomes["model"].tolist() == [G, G]
    assert model._asked == []


def test_gates_open_one_after_another(reward_set: Any, texts: Any) -> None:
    rewards = {"c": Tells(gate="b", gate_above=2.0), "b": Function("bad_rewards.letters", gate="a"), "a": Tells()}
    scored = reward_set(rewards).score(texts(["0", "11", "123"]))
    assert scored.reward_parts["b"].tolist() == [0.0, 1.0, 3.0]
    assert scored.outcomes["c"].tolist() == [G, G, V]


@pytest.mark.parametrize(
    ("gates", "words"),
    [
        ({"a": "b", "b": None}, None),
        ({"a": "correct"}, "reward 'a' has the gate 'correct', which is no reward here. There are: a"),
        ({"a": "a", "b": None}, r"wait for each other and would never be asked: 'a' \(gate 'a'\)"),
        ({"a": "c", "b": "a", "c": "b", "d": None}, r"'a' \(gate 'c'\), 'b' \(gate 'a'\), 'c' \(gate 'b'\)"),
    ],
)
def test_gates_that_lead_nowhere_are_refused_when_built(gates: dict[str, str | None], words: str | None) -> None:
    rewards = {name: Tells(gate=gate) for name, gate in gates.items()}
    if words is None:
        RewardSet(rewards)
        return
    with pytest.raises(ValueError, match=words):
        RewardSet(rewards)


def test_normalised_by_group_by_hand(texts: Any) -> None:
    rewards = RewardSet({"a": Tells(normalize="group", weight=2.0)})
    scored = rewards.score(texts(["1", "3", "5", "bad", "7", "7", "2", "none"], [0, 0, 0, 0, 1, 1, 2, 2]))
    total = rewards.token_rewards(scored)[0].sum(1)
    assert total.tolist() == pytest.approx([-2.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert rewards.row_rewards(scored, held_out=True).nan_to_num(-9).tolist() == [2, 6, 10, -9, 14, 14, 4, -9]
    numbers = rewards.statistics(scored)
    assert numbers["rewards/a/mean"].nan_to_num(-9).tolist() == [1, 3, 5, -9, 7, 7, 2, -9]
    assert numbers["rewards/a/contribution"].nan_to_num(-9).tolist() == pytest.approx([-2, 0, 2, -9, 0, 0, 0, -9])
    steps = RewardSet({"a": TellsAll(tokens=True, normalize="group")})
    of_tokens = steps.score(texts(["1"]))
    with pytest.raises(ValueError, match="'a'"):
        steps.token_rewards(of_tokens)


@settings(deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=2, max_size=8), st.floats(0.1, 10), st.floats(-50, 50))
def test_normalising_forgets_scale_and_offset(values: list[float], scale: float, offset: float) -> None:
    x, group = torch.tensor(values, dtype=torch.float64), torch.zeros(len(values), dtype=torch.long)
    valid = torch.ones(len(values), dtype=torch.bool)
    if x.max() - x.min() > 1e-2:
        torch.testing.assert_close(z_scores(x * scale + offset, group, valid), z_scores(x, group, valid), rtol=1e-4, atol=1e-4)
        assert z_scores(x, group, valid).std() == pytest.approx(1.0)


def test_shares_by_hand() -> None:
    group, valid = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([True, True, True, True, False])
    # centred: a = -1, 1 | 0, 0; b = 0, 0 | 1, -1; c against a; whole = -.5, .5 | 1, -1
    parts = {"a": [0.0, 2, 5, 5, 99], "b": [3.0, 3, 2, 0, 99], "c": [0.5, -0.5, 1, 1, 99]}
    found = shares({name: torch.tensor(values) for name, values in parts.items()}, group, valid)
    assert found == pytest.approx({"a": 1 / 2.5, "b": 2 / 2.5, "c": -0.5 / 2.5})
    nothing = shares({"a": torch.ones(5), "b": torch.zeros(5)}, group, valid)
    assert all(math.isnan(share) for share in nothing.values())


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(-9, 9), min_size=6, max_size=6), min_size=1, max_size=4))
def test_shares_add_up_to_one(parts: list[list[float]]) -> None:
    weighted = {str(i): torch.tensor(part, dtype=torch.float64) for i, part in enumerate(parts)}
    found = shares(weighted, torch.tensor([0, 0, 0, 1, 1, 1]), torch.ones(6, dtype=torch.bool))
    assert all(math.isnan(share) for share in found.values()) or sum(found.values()) == pytest.approx(1.0)


def test_a_schedule_moves_the_weight_with_the_rollouts_and_survives() -> None:
    def rewards() -> RewardSet:
        return RewardSet({"a": Tells(weight=2.0, schedule=LinearWeight(0.5, 0.0, 4)), "b": Tells()})

    one = rewards()
    seen = []
    for _ in range(6):
        seen.append(one.weights["a"])
        one.after_rollout()
    assert seen == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    again = rewards()
    again.load_state_dict({**one.state_dict(), "rollouts": 3})
    assert again.weights == {"a": 0.25, "b": 1.0}
    assert one.state_dict() == {"rollouts": 6, "rewards": {}}
    with pytest.raises(ValueError, match="weight 0"):
        RewardSet({"a": Tells(schedule=LinearWeight(0, 0, 1))})
    with pytest.raises(ValueError, match="rollouts >= 1"):
        LinearWeight(0, 1, 0)


def test_held_out_rewards_have_the_weights_at_the_end_of_their_schedules(texts: Any) -> None:
    """The best checkpoint was the one of the rollout with the largest weights."""
    rewards = RewardSet({"a": Tells(weight=2.0, schedule=LinearWeight(1.0, 0.25, 2)), "b": Tells()})
    scored = rewards.score(texts(["1", "4"]))
    held_out = []
    for weight in (2.0, 1.25, 0.5):
        assert rewards.row_rewards(scored).tolist() == [weight + 1, 4 * weight + 4]
        held_out.append(rewards.row_rewards(scored, held_out=True).tolist())
        assert rewards.statistics(scored, held_out=True)["rewards/a/weight"].tolist() == [0.5, 0.5]
        rewards.after_rollout()
    assert held_out == [[1.5, 6.0]] * 3


def test_a_score_is_remembered_by_prompt_completion_and_columns_and_a_failure_is_not(texts: Any) -> None:
    reward = Tells(cache=3)
    rewards = RewardSet({"a": reward})
    first = rewards.submit(texts(["1", "1", "2", "bad"], [0, 0, 0, 0], level=1))
    assert first.result().reward_parts["a"][:3].tolist() == [1.0, 1.0, 2.0]
    assert reward._asked == ["1", "2", "bad"]
    assert first.statistics()["rewards/a/cached"].mean() == 0.25
    again = rewards.submit(texts(["2", "bad", "1"], [0, 0, 0], level=1))
    assert again.result().outcomes["a"].tolist() == [V, E, V]
    assert reward._asked[3:] == ["bad"]
    rewards.score(texts(["1"], [1], level=1))
    assert reward._asked[4:] == ["1"], "another prompt"
    rewards.score(texts(["4"], [0], level=1))
    rewards.score(texts(["2", "1"], [0, 0], level=1))
    assert reward._asked[5:] == ["4", "2"], "the least recently used of three was forgotten"


def test_columns_that_a_reward_names_are_part_of_the_key(texts: Any) -> None:
    reward = Level(cache=9)
    rewards = RewardSet({"a": reward})
    assert [rewards.score(texts(["x"], [0], level=level)).reward_parts["a"].item() for level in (1, 2, 1)] == [1.0, 2.0, 1.0]


class Level(RowReward):
    """Scores the column."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, level: int) -> float:
        return float(level)


def test_the_error_budget_looks_back_on_a_window_and_names_samples(texts: Any) -> None:
    rewards = RewardSet({"a": Tells(max_error_rate=0.5, error_window=4), "b": Tells(weight=0.0, max_error_rate=0.0)})
    rewards.score(texts(["bad", "1", "2", "bad"]))
    assert rewards.spent() is None
    rewards.score(texts(["3", "bad"]))
    assert rewards.spent() is None, "one of the failures has left the window"
    rewards.score(texts(["bad"]))
    complaint = rewards.spent()
    assert complaint is not None
    assert complaint.startswith("reward 'a' failed on 3 of the last 4 completions (more than 2 are not allowed):\n  prompt 'p")
    assert "could not convert string to float: 'bad'" in complaint
    assert complaint.endswith("raise its max_error_rate or error_window, or give it the weight 0")


def test_the_error_budget_of_a_rank_survives(texts: Any) -> None:
    def rewards(**others: Any) -> RewardSet:
        return RewardSet({"a": Tells(max_error_rate=0.5, error_window=4), **others})

    one, again, fewer = rewards(gone=Tells(weight=0.0)), rewards(new=Tells()), RewardSet({"a": Tells(max_error_rate=0.5, error_window=2)})
    one.score(texts(["1", "bad", "2", "bad"]))
    state = one.state_dict() | json.loads(json.dumps(one.state_dict(per_rank=True)))
    again.load_state_dict(state)
    assert again.spent() is None
    again.score(texts(["bad"]))
    assert "reward 'a' failed on 3 of the last 4 completions" in str(again.spent())
    fewer.load_state_dict(state)
    fewer.score(texts(["bad"]))
    assert "reward 'a' failed on 2 of the last 2 completions" in str(fewer.spent())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_error_rate": 1.5}, r"0 <= max_error_rate <= 1, got max_error_rate=1\.5"),
        ({"error_window": 0}, "error_window >= 1"),
        ({"normalize": "batch"}, "normalize to be 'group' or null, got normalize='batch'"),
        ({"cache": -1}, "cache >= 0"),
        ({"memory_mb": 5}, "runs inline, where memory_mb would limit nothing"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Tells(**arguments)
