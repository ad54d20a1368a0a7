import logging
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightrl.parts.function import Function
from lightrl.parts.reward import BatchReward, Reward, RowReward
from lightrl.rewards.reward_set import RewardSet
from lightrl.types import Outcome, Prompt, Rollout, ScoredRollout

NAN = math.nan


def rollout(lengths: list[int], width: int = 6, columns: dict[str, Any] | None = None) -> Rollout:
    """One row per length: two prompt tokens, then that many response tokens."""
    positions = torch.arange(width)
    ends = 2 + torch.tensor(lengths, dtype=torch.long)[:, None]
    attention = positions < ends
    return Rollout(
        prompts=[Prompt(id=f"p{i}", text="?", answer=str(i), columns=columns or {}) for i in range(len(lengths))],
        completions=[str(i) for i in range(len(lengths))],
        input_ids=torch.zeros(len(lengths), width, dtype=torch.long),
        attention_mask=attention,
        response_mask=attention & (positions >= 2),
        rollout_logprobs=torch.zeros(len(lengths), width),
        group=torch.arange(len(lengths)),
        finish_reason=["stop"] * len(lengths),
        policy_version=torch.zeros(len(lengths), dtype=torch.long),
        temperature=1.0,
    )


class Says(RowReward):
    """Returns, or raises, what it was told to, by row."""

    runs = "inline"

    def __init__(self, *values: Any, weight: float = 1.0) -> None:
        super().__init__(weight)
        self.values = values

    def score(self, prompt: Prompt, completion: str, **columns: Any) -> Any:
        value = self.values[int(completion)]
        if isinstance(value, Exception):
            raise value
        return value


class SaysAll(BatchReward):
    """Returns, or raises, what it was told to."""

    def __init__(self, value: Any, weight: float = 1.0) -> None:
        super().__init__(weight)
        self.value = value

    def score(self, rollout: Rollout) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def same(left: Tensor, right: list[Any]) -> bool:
    return torch.equal(left.nan_to_num(-99.0), torch.tensor(right, dtype=left.dtype).nan_to_num(-99.0))


def length(completion: str) -> float:
    return float(len(completion))


def level_of(level: int, bonus: float = 0.5) -> float:
    return level + bonus


def test_an_outcome_sits_weighted_on_the_last_response_token() -> None:
    rewards = RewardSet({"a": Says(1.0, 0.0, 2.0, weight=2.0), "b": Says(1, True, 3, weight=-0.5)})
    scored = rewards.score(rollout([1, 3, 0]))
    total, ends = rewards.token_rewards(scored)
    assert scored.scorable.all()
    assert same(scored.reward_parts["b"], [1.0, 1.0, 3.0])
    assert same(total, [[0, 0, 1.5, 0, 0, 0], [0, 0, 0, 0, -0.5, 0], [0] * 6])
    assert ends.nonzero().tolist() == [[0, 2], [1, 4]]


def test_one_value_per_response_token_is_a_step_where_it_is_a_number() -> None:
    rewards = RewardSet({"steps": Says([None, 0.0, 2.0], 4.0, None), "outcome": Says(1.0, 1.0, 1.0)})
    scored = rewards.score(rollout([3, 2, 1]))
    nothing = [NAN] * 6
    assert same(scored.reward_parts["steps"], [[NAN, NAN, NAN, 0, 2, NAN], [NAN, NAN, NAN, 4, NAN, NAN], nothing])
    assert scored.outcomes["steps"].tolist() == [Outcome.VALUE, Outcome.VALUE, Outcome.ABSTAINED]
    total, ends = rewards.token_rewards(scored)
    assert same(total, [[0, 0, 0, 0, 3, 0], [0, 0, 0, 5, 0, 0], [0, 0, 1, 0, 0, 0]])
    assert ends.nonzero().tolist() == [[0, 3], [0, 4], [1, 3], [2, 2]]


def test_a_response_with_gaps_takes_values_at_its_own_tokens() -> None:
    batch = rollout([3])
    batch.response_mask[0, 3] = False
    scored = RewardSet({"steps": Says([1.0, 2.0])}).score(batch)
    assert same(scored.reward_parts["steps"], [[NAN, NAN, 1, NAN, 2, NAN]])


VALUES = {"value": 0.5, "zero": 0.0, "none": None, "nan": NAN, "inf": -math.inf, "huge": 1e39, "raise": RuntimeError("boom")}
KINDS = st.sampled_from(sorted(VALUES))


@given(st.lists(st.tuples(KINDS, KINDS), min_size=1, max_size=6), st.sampled_from([0.0, -1.0, 2.0]))
def test_who_is_scorable(kinds: list[tuple[str, str]], weight: float) -> None:
    rewards = RewardSet({"first": Says(*(VALUES[a] for a, _ in kinds)), "second": Says(*(VALUES[b] for _, b in kinds), weight=weight)})
    scored = rewards.score(rollout([2] * len(kinds)))
    total, ends = rewards.token_rewards(scored)
    for row, pair in enumerate(kinds):
        counted = pair if weight else pair[:1]
        answered = [VALUES[k] for k in counted if k in ("value", "zero")]
        failed = any(k not in ("value", "zero", "none") for k in counted)
        assert scored.scorable[row] == (bool(answered) and not failed)
        expected = (
            sum(w * VALUES[k] for k, w in zip(pair, (1.0, weight), strict=True) if k in ("value", "zero")) if scored.scorable[row] else 0
        )
        assert total[row].sum().item() == pytest.approx(expected)
        assert ends[row].any() == scored.scorable[row]


def test_failures_are_logged_once_with_the_first_prompt_and_line(caplog: pytest.LogCaptureFixture) -> None:
    rewards = RewardSet({"a": Says(1.0, RuntimeError("boom"), NAN), "b": Says(1.0, 1.0, 1.0)})
    with caplog.at_level(logging.WARNING):
        scored = rewards.score(rollout([1, 1, 1]))
    assert len(caplog.records) == 1
    message = caplog.records[0].getMessage()
    assert message.startswith("reward 'a' failed on 2 of 3 rows; first: prompt 'p1': RuntimeError: boom (")
    assert "test_scoring.py:" in message
    assert scored.outcomes["a"].tolist() == [Outcome.VALUE, Outcome.ERROR, Outcome.ERROR]


def test_batch_rewards_by_row_and_by_token() -> None:
    steps = torch.full((2, 6), NAN)
    steps[0, 3], steps[1, 0] = 2.0, 0.0
    rewards = RewardSet(
        {"rows": SaysAll(torch.tensor([1.0, NAN])), "steps": SaysAll(steps), "down": SaysAll(OSError("no server"), weight=0.0)}
    )
    scored = rewards.score(rollout([2, 2]))
    assert same(scored.reward_parts["rows"], [1.0, NAN])
    assert same(scored.reward_parts["steps"], [[NAN, NAN, NAN, 2, NAN, NAN], [NAN] * 6])
    assert scored.outcomes["steps"].tolist() == [Outcome.VALUE, Outcome.ABSTAINED]
    assert scored.outcomes["down"].tolist() == [Outcome.ERROR, Outcome.ERROR]
    assert scored.scorable.tolist() == [True, False]
    assert steps[1, 0] == 0.0, "the reward's own tensor is left alone"


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        (Says([1.0]), r"reward 'r', row 0 \(prompt 'p0'\): got a list of 1 values, expected 2, one per response token"),
        (Says("good"), "row 0 .*: got str 'good', expected a number, None, or a list"),
        (Says(["a", "b"]), "got list"),
        (SaysAll(torch.zeros(3)), r"reward 'r' returned a tensor of shape \[3\], expected a tensor of shape \[1\] or \[1, 6\]"),
        (SaysAll([1.0]), "returned a list, expected a tensor"),
        (SaysAll(torch.ones(1, 6)), "got 1 at position 0, which is no response token"),
    ],
)
def test_a_wrong_shape_stops_the_run(reward: Reward, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RewardSet({"r": reward}).score(rollout([2]))


def test_tensors_and_numpy_values_are_numbers_too() -> None:
    numpy = pytest.importorskip("numpy")
    scored = RewardSet({"r": Says(torch.tensor(0.5), numpy.float32(0.25))}).score(rollout([1, 1]))
    assert scored.reward_parts["r"].tolist() == [0.5, 0.25]
    assert same(RewardSet({"r": Says(torch.tensor([1.0, 2.0]))}).score(rollout([2])).reward_parts["r"], [[NAN, NAN, 1, 2, NAN, NAN]])


def test_a_rollout_without_rows() -> None:
    rewards = RewardSet({"r": Says(), "b": SaysAll(torch.zeros(0))})
    scored = rewards.score(rollout([]))
    assert len(scored) == 0
    assert [t.shape for t in rewards.token_rewards(scored)] == [(0, 6), (0, 6)]
    assert all(value.numel() == 0 for value in rewards.statistics(scored).values())


def test_statistics_add_up_to_the_reward() -> None:
    rewards = RewardSet({"a": Says(1.0, 3.0, None, 5.0, weight=2.0), "b": Says([0.5, 1.0], 1.0, 1.0, NAN)})
    scoring = rewards.submit(rollout([2, 1, 1, 1]))
    scored = scoring.result()
    numbers = {**rewards.statistics(scored), **scoring.statistics()}
    assert same(numbers["rewards/a/mean"], [1.0, 3.0, NAN, 5.0])
    assert same(numbers["rewards/b/mean"], [1.5, 1.0, 1.0, NAN])
    assert numbers["rewards/a/std"][0].item() == pytest.approx(math.sqrt(8 / 3))
    assert same(numbers["rewards/a/contribution"], [2.0, 6.0, 0.0, NAN])
    assert same(numbers["rewards/a/weight"], [2.0] * 4)
    assert same(numbers["rewards/b/failed"], [0.0, 0.0, 0.0, 1.0])
    assert same(numbers["rewards/a/abstained"], [0.0, 0.0, 1.0, 0.0])
    total = rewards.token_rewards(scored)[0].sum(1)
    added = numbers["rewards/a/contribution"] + numbers["rewards/b/contribution"]
    assert torch.equal(added[:3], total[:3])


class Wants(RowReward):
    """Names what it wants, in several ways."""

    runs = "inline"

    def score(self, question: Prompt, text: str, *, answer: str, level: int, bonus: float = 0.5, **rest: Any) -> float:
        raise NotImplementedError


class Strict(RowReward):
    """Takes nothing but what it names."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, level: int) -> float:
        return float(level)


def test_a_reward_is_given_what_it_names() -> None:
    batch = rollout([1], columns={"level": 3, "completion": "another", "unwanted": 1})
    rewards = RewardSet(
        {"strict": Strict(), "f": Function(f"{__name__}.level_of", runs="inline"), "l": Function(f"{__name__}.length", runs="inline")}
    )
    parts = rewards.score(batch).reward_parts
    assert {name: part.item() for name, part in parts.items()} == {"strict": 3.0, "f": 3.5, "l": 1.0}


def test_columns_are_checked_before_the_run() -> None:
    rewards = RewardSet({"strict": Strict(), "f": Function(f"{__name__}.level_of"), "any": Wants()})
    rewards.check({"level"})
    with pytest.raises(ValueError, match=r"'strict' .*'level', .*difficulty, topic"):
        rewards.check({"topic", "difficulty"})


@pytest.mark.parametrize(
    ("rewards", "words"),
    [
        ({}, "there is no reward"),
        ({"a": Says(weight=0.0), "b": Says(weight=0.0)}, r"every reward \(a, b\) has weight 0"),
        ({"a": length}, "reward 'a' is a function"),
    ],
)
def test_sets_that_cannot_teach_are_refused(rewards: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RewardSet(rewards)


def test_a_weight_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Says needs .* weight .*, got weight=nan"):
        Says(weight=NAN)


class Counting(RowReward):
    """Keeps a count, which must survive."""

    runs = "inline"

    calls = 0

    def score(self, prompt: Prompt, completion: str, **columns: Any) -> float:
        self.calls += 1
        return 1.0

    def state_dict(self) -> dict[str, Any]:
        return {"calls": self.calls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.calls = state["calls"]


def test_state_of_rewards_survives() -> None:
    rewards, again = (RewardSet({"count": Counting(), "plain": Says(1.0, 1.0)}) for _ in range(2))
    rewards.score(rollout([1, 1]))
    assert rewards.state_dict() == {"rollouts": 0, "rewards": {"count": {"calls": 2}}}
    again.load_state_dict(rewards.state_dict())
    assert again.state_dict() == rewards.state_dict()
    with pytest.raises(ValueError, match=r"\['gone'\].*count, plain"):
        again.load_state_dict({"rollouts": 0, "rewards": {"gone": {}}})


def test_scores_of_rows_and_of_tokens_can_be_joined() -> None:
    rewards = RewardSet({"r": Says(1.0, [2.0, 3.0, 4.0], None)})
    batch = rollout([2, 3, 0])
    rows = [rewards.score(batch.select([i])) for i in range(3)]
    joined, whole = ScoredRollout.concat(rows), rewards.score(batch)
    assert [part.reward_parts["r"].dim() for part in rows] == [1, 2, 1]
    assert torch.equal(joined.reward_parts["r"].nan_to_num(-99.0), whole.reward_parts["r"].nan_to_num(-99.0))
    assert torch.equal(rewards.token_rewards(joined)[0], rewards.token_rewards(whole)[0])
