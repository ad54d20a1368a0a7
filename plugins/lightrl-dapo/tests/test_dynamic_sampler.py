"""Dynamic sampling on prompts whose groups are known to be all right, all wrong or mixed."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_dapo import DynamicSampler

from lightrl import Prompt, Rollout, ScoredRollout
from lightrl.data.stream import PromptStream
from lightrl.parts.reward import BatchReward, RowReward
from lightrl.rewards.reward_set import RewardSet


class ByPrompt(RowReward):
    """The n-th completion of a prompt scores what the prompt's column says."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, scores: list[float | None], **columns: Any) -> float | None:
        return scores[int(completion) % len(scores)]


class Length(BatchReward):
    """Another reward, which differs within every group."""

    def score(self, rollout: Rollout) -> torch.Tensor:
        return rollout.response_lengths.float()


RIGHT, WRONG, MIXED, SILENT = [1.0], [0.0], [1.0, 0.0], [None]


class Bench:
    """One process that completes prompts with numbers; rows have two prompt tokens and 1 to 3 response tokens."""

    def __init__(self, scores: Sequence[list[float | None]], prompts: int = 4, rewards: dict[str, Any] | None = None) -> None:
        self.prompts = prompts
        self.scores = list(scores)
        self.stream = PromptStream(len(self.scores), shuffle=False)
        self.rewards = RewardSet(rewards or {"correct": ByPrompt()})
        self.version = 0
        self.drawn: list[str] = []
        self.asked: list[str] = []
        self.calls = self.groups = 0
        self.reported: dict[str, list[float]] = defaultdict(list)

    def draw(self, n: int) -> list[Prompt]:
        indices = self.stream.draw(n)
        self.drawn += map(str, indices)
        return [Prompt(id=str(i), text="ab", columns={"scores": self.scores[i]}) for i in indices]

    def rollout(self, prompts: Sequence[Prompt], n: int, temperature: float | None = None) -> Rollout:
        self.asked += [prompt.id for prompt in prompts]
        self.calls += 1
        rows = len(prompts) * n
        sizes = torch.tensor([i % n % 3 + 1 for i in range(rows)], dtype=torch.long)
        position = torch.arange(5 if rows else 1)
        attention = position < 2 + sizes[:, None]
        mask = attention & (position >= 2)
        group = torch.arange(len(prompts)).repeat_interleave(n) + self.groups
        self.groups += len(prompts)
        return Rollout(
            prompts=[prompt for prompt in prompts for _ in range(n)],
            completions=[str(i % n) for i in range(rows)],
            input_ids=torch.ones_like(mask, dtype=torch.long),
            attention_mask=attention,
            response_mask=mask,
            rollout_logprobs=torch.where(mask, -0.5 * (self.calls + 1), 0.0),
            group=group,
            finish_reason=["stop"] * rows,
            policy_version=torch.full((rows,), self.version),
            temperature=1.0,
        )

    def score(self, rollout: Rollout) -> ScoredRollout:
        return self.rewards.score(rollout)

    def rollout_and_score(self, prompts: Sequence[Prompt], n: int, slices: int = 1) -> ScoredRollout:
        return self.score(self.rollout(prompts, n))

    def reward(self, scored: ScoredRollout) -> torch.Tensor:
        raise AssertionError("filters look at raw parts")

    def total(self, value: float) -> float:
        return float(value)

    def report(self, name: str, value: Any, reduce: str = "sum") -> None:
        self.reported[name.removeprefix("sampling/")] += torch.as_tensor(value).flatten().tolist()

    def collect(self, sampler: DynamicSampler) -> ScoredRollout:
        self.reported.clear()
        self.groups = 0
        return sampler.collect(self)


def ids(scored: ScoredRollout) -> list[str]:
    """One id per group, in the order of group numbers."""
    return [scored.prompts[int((scored.group == number).nonzero()[0])].id for number in torch.unique(scored.group)]


def test_the_batch_is_full_of_groups_with_some_variance_and_the_rest_is_counted() -> None:
    bench = Bench([RIGHT, MIXED, WRONG, MIXED, SILENT, RIGHT, MIXED, MIXED, MIXED])
    scored = bench.collect(DynamicSampler(group_size=3))
    assert ids(scored) == ["1", "3", "6", "7"]
    assert len(scored) == 12
    assert scored.group.tolist() == [g for g in range(4) for _ in range(3)]
    assert scored.row_weight is None
    # two of four had some variance, so the two that are missing are looked for among ceil(2 / (3 / 5)) = 4 further prompts
    assert {name: value for name, value in bench.reported.items() if name != "metric"} == {
        "rounds": [2], "kept": [4], "surplus": [0], "dropped_zero_variance": [3], "dropped_all_right": [2], "dropped_all_wrong": [1],
        "dropped_unscorable": [1], "prompts": [8], "resampled": [0], "carried": [0],
    }  # fmt: skip
    assert sum(bench.reported["metric"]) / len(bench.reported["metric"]) == pytest.approx((6 + 0 + 8) / 21)


def test_a_full_batch_needs_one_round() -> None:
    bench = Bench([MIXED] * 8)
    assert ids(bench.collect(DynamicSampler(group_size=2))) == ["0", "1", "2", "3"]
    assert bench.calls == 1


def test_surplus_is_dropped_or_carried_with_its_version_and_log_probs() -> None:
    for surplus, second in (("drop", ["8", "9", "10", "11"]), ("carry", ["4", "5", "6", "7"])):
        bench, sampler = Bench([MIXED] * 16), DynamicSampler(group_size=2, oversampling=2, surplus=surplus)  # type: ignore[arg-type]
        first = bench.collect(sampler)
        assert bench.reported["surplus"] == [4]
        bench.version = 3
        later = bench.collect(sampler)
        assert ids(first) == ["0", "1", "2", "3"]
        assert ids(later) == second
        old = surplus == "carry"
        assert later.policy_version.unique().tolist() == [0 if old else 3]
        assert later.rollout_logprobs[later.response_mask].unique().tolist() == [-1.0 if old else -1.5]
        assert bench.reported["carried"] == [4 if old else 0]
        assert bench.reported["rounds"] == [0 if old else 1]


def test_carried_groups_come_first_and_are_joined_by_fresh_ones() -> None:
    bench, sampler = Bench([MIXED] * 16), DynamicSampler(group_size=2, oversampling=1.5, surplus="carry")
    bench.collect(sampler)
    bench.version = 1
    later = bench.collect(sampler)
    assert ids(later) == ["4", "5", "6", "7"]
    assert later.policy_version.tolist() == [0] * 4 + [1] * 4
    assert later.group.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_resampling_tries_a_prompt_again_before_it_is_replaced() -> None:
    bench = Bench([MIXED, WRONG, *[RIGHT] * 2, *[MIXED] * 20])
    scored = bench.collect(DynamicSampler(group_size=2, zero_variance="resample", attempts=3))
    assert ids(scored) == ["0", "4", "5", "6"]
    # the second round takes the three that failed and one more, the third those three again and further ones
    assert bench.asked[4:8] == ["1", "2", "3", "4"]
    assert Counter(bench.asked)["1"] == Counter(bench.asked)["3"] == 3
    assert bench.reported["resampled"] == [6]
    assert bench.reported["dropped_all_wrong"] == [3]


def test_a_prompt_that_waits_for_another_attempt_comes_first_in_the_next_rollout() -> None:
    bench = Bench([MIXED, MIXED, WRONG, MIXED, MIXED, MIXED, *[MIXED] * 9])
    sampler = DynamicSampler(group_size=2, oversampling=1.5, zero_variance="resample")
    bench.collect(sampler)
    assert bench.asked == ["0", "1", "2", "3", "4", "5"]
    again = DynamicSampler(group_size=2, oversampling=1.5, zero_variance="resample")
    again.load_state_dict(sampler.state_dict())
    bench.collect(again)
    assert bench.asked[6:8] == ["2", "6"]


@pytest.mark.parametrize("factor", [0.0, 0.25])
def test_down_weighting_keeps_every_group_and_weighs_those_without_signal(factor: float) -> None:
    bench = Bench([RIGHT, MIXED, WRONG, MIXED])
    scored = bench.collect(DynamicSampler(group_size=2, zero_variance="down_weight", factor=factor))
    assert ids(scored) == ["0", "1", "2", "3"]
    assert scored.row_weight is not None
    assert scored.row_weight.tolist() == [factor, factor, 1, 1, factor, factor, 1, 1]
    assert bench.reported["down_weighted_zero_variance"] == [2]
    assert "dropped_zero_variance" not in bench.reported
    assert bench.calls == 1


def test_an_exhausted_rollout_is_an_error_with_numbers_a_partial_batch_or_none() -> None:
    scores = [MIXED, *[WRONG] * 30, RIGHT, SILENT] * 2
    with pytest.raises(
        RuntimeError, match=r"found 1 of 4 groups with some variance in 3 rounds: of 12 prompts 0 were all right, 11 all wrong, and 0"
    ):
        Bench(scores).collect(DynamicSampler(group_size=2, max_rounds=3))
    partial = Bench(scores).collect(DynamicSampler(group_size=2, max_rounds=3, exhausted="partial"))
    assert ids(partial) == ["0"]
    skipping = DynamicSampler(group_size=2, max_rounds=3, exhausted="skip", surplus="carry")
    bench = Bench(scores)
    skipped = bench.collect(skipping)
    assert (len(skipped), bench.reported["kept"], bench.reported["surplus"]) == (0, [0], [1])
    assert set(skipped.reward_parts) == {"correct"}
    assert ids(skipping._carried) == ["0"]


def test_without_a_limit_it_goes_on_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench([*[WRONG] * 60, *[MIXED] * 20])
    with caplog.at_level(logging.WARNING):
        scored = bench.collect(DynamicSampler(group_size=2, max_rounds=0))
    assert len(ids(scored)) == 4
    assert "10 rounds, 40 prompts, 0 groups with some variance so far" in caplog.text


def test_what_decides_is_a_raw_reward_never_a_sum() -> None:
    """All right with different lengths would have a deviation of the sum, and teach nothing but length."""
    rewards = {"correct": ByPrompt(), "length": Length(weight=0.1)}
    bench = Bench([RIGHT, MIXED, MIXED, MIXED, MIXED], rewards=rewards)
    assert ids(bench.collect(DynamicSampler(group_size=3, metric="correct"))) == ["1", "2", "3", "4"]
    assert ids(Bench([RIGHT] * 4, rewards=rewards).collect(DynamicSampler(group_size=3, metric="length"))) == ["0", "1", "2", "3"]
    with pytest.raises(ValueError, match=r"metric .*correct, length"):
        Bench([RIGHT], rewards=rewards).collect(DynamicSampler(group_size=3))
    with pytest.raises(ValueError, match=r"metric .*'acc'.*correct, length"):
        Bench([RIGHT], rewards=rewards).collect(DynamicSampler(group_size=3, metric="acc"))


def test_float_noise_is_no_signal_and_one_scored_row_is_no_group() -> None:
    noise, lonely = [0.1 + 0.2, 0.3], [1.0, None]
    scored = Bench([noise, lonely, MIXED], prompts=1).collect(DynamicSampler(group_size=2))
    assert ids(scored) == ["2"]


def test_a_row_that_failed_gives_a_group_no_variance() -> None:
    broken = [1.0, float("nan"), 1.0]
    assert ids(Bench([broken, MIXED], prompts=1).collect(DynamicSampler(group_size=3))) == ["1"]


MIX = st.lists(st.sampled_from([RIGHT, WRONG, MIXED, MIXED, SILENT]), min_size=1, max_size=30).filter(lambda scores: MIXED in scores)


@given(
    MIX, st.integers(1, 5), st.floats(1, 3), st.sampled_from(["drop", "carry"]), st.sampled_from(["replace", "resample"]), st.integers(1, 4)
)
def test_no_prompt_is_lost_or_seen_twice_in_an_epoch(
    scores: list[list[float | None]], prompts: int, oversampling: float, surplus: Any, zero_variance: Any, rollouts: int
) -> None:
    bench = Bench(scores, prompts)
    sampler = DynamicSampler(2, None, oversampling, 0, zero_variance, surplus=surplus)
    trained: list[str] = []
    waiting = 0
    for _ in range(rollouts):
        scored = bench.collect(sampler)
        assert len(torch.unique(scored.group)) == prompts
        trained += ids(scored)
        assert int(sum(bench.reported["carried"])) == waiting
        waiting = int(sum(bench.reported["surplus"])) if surplus == "carry" else 0
    drawn = bench.drawn
    assert drawn == [str(i % len(scores)) for i in range(len(drawn))]
    assert set(bench.asked) == set(drawn)
    times = {prompt: count * (1 if zero_variance == "replace" else 3) for prompt, count in Counter(drawn).items()}
    assert all(count <= times[prompt] for prompt, count in Counter(bench.asked).items())
    if zero_variance == "replace":
        assert bench.asked == drawn
    if surplus == "carry":
        assert len(trained) + waiting == sum(scores[int(prompt)] == MIXED for prompt in drawn)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group_size": 1}, "group_size >= 2"),
        ({"oversampling": 0.5}, "oversampling >= 1"),
        ({"attempts": 1}, "attempts >= 2"),
        ({"factor": 1.5}, "0 <= factor <= 1"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DynamicSampler(**settings)
