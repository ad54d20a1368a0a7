"""Which prompts are near the edge, by numbers by hand, and the same for every number of ranks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_curriculum import EdgeSampler
from lightrl_workshop import ScriptedCollection, hand_made_experience, learnt_from
from streamed_collection import rollouts

from lightrl import Prompt, RunEndedError
from lightrl.ranks import ALONE

RIGHT, WRONG, HALF = [1.0, 1.0], [0.0, 0.0], [0.0, 1.0]


def test_what_is_remembered_by_hand() -> None:
    """Two groups of one level: 3 of 4 and 0 of 4; then the first prompt again, 1 of 3, one row being lost."""
    sampler = EdgeSampler(group_size=4, decay=0.5)
    rows = hand_made_experience([1, 1, 1, 0, 0, 0, 0, 0], group=[0] * 4 + [1] * 4)
    sampler.commit(rows, ALONE)
    assert sampler.state_dict() == {"prompts": {"p0": [3, 1], "p1": [0, 4]}, "levels": {"": [3, 5]}, "learnt": 1}
    sampler.commit(hand_made_experience([1, 0, 0, float("nan")], scorable=[True, True, True, False]), ALONE)
    assert sampler.state_dict()["prompts"] == {"p0": [0.5 * 3 + 1, 0.5 * 1 + 2], "p1": [0, 4]}
    assert sampler.state_dict()["levels"] == {"": [0.5 * 3 + 1, 0.5 * 5 + 2]}


def test_scores_beyond_success_and_failure_count_as_these() -> None:
    sampler = EdgeSampler()
    sampler.commit(hand_made_experience([-3.0, 0.25, 7.0]), ALONE)
    assert sampler.state_dict()["prompts"] == {"p0": [1.25, 1.75]}


def test_prompts_that_are_sometimes_right_are_asked_and_others_are_not() -> None:
    """Of 12 prompts only 0 and 6 are between; once all were tried, they are in every rollout of 4."""
    scores = [HALF, RIGHT, WRONG, RIGHT, WRONG, RIGHT]
    asked, _ = rollouts(lambda: EdgeSampler(2, candidates=3, prior=0.01, decay=1.0), 1, 4, 12, 30, scores)
    late = [prompt for rollout in asked[15:] for prompt in rollout]
    assert late.count("0") == late.count("6") == 15


def test_prompts_that_were_never_used_are_judged_by_their_level() -> None:
    """Level 0 is half right, level 1 all right, level 2 all wrong; 3,000 prompts, so that hardly any comes twice."""
    asked, _ = rollouts(lambda: EdgeSampler(2, candidates=4, level="level", prior=8.0), 1, 8, 3000, 12, [HALF, RIGHT, WRONG])
    late = [int(prompt) % 3 for rollout in asked[4:] for prompt in rollout]
    assert late.count(0) > 0.75 * len(late)


@settings(deadline=None, max_examples=15)
@given(st.integers(8, 40), st.sampled_from([1.0, 2.5, 4.0]), st.sampled_from([None, "level"]))
def test_ranks_choose_together_and_no_prompt_twice(size: int, candidates: float, level: str | None) -> None:
    runs = [rollouts(lambda: EdgeSampler(2, candidates, level=level), ranks, 8, size, 4, [HALF, RIGHT, WRONG]) for ranks in (1, 2, 4)]
    for asked, samplers in runs:
        assert asked == runs[0][0]
        assert all(len(set(rollout)) == 8 for rollout in asked)
        assert all(sampler.state_dict() == runs[0][1][0].state_dict() for sampler in samplers)


def test_with_no_more_candidates_than_prompts_the_stream_decides() -> None:
    asked, _ = rollouts(lambda: EdgeSampler(2, candidates=1), 1, 4, 16, 8, [HALF, RIGHT])
    assert sorted(prompt for rollout in asked[:4] for prompt in rollout) == sorted(str(i) for i in range(16))


def test_a_restarted_sampler_asks_for_the_same_prompts() -> None:
    sampler, again = EdgeSampler(2), EdgeSampler(2)
    sampler.commit(learnt_from(sampler.collect(ScriptedCollection(4, zero_variance=[1, 2]))), ALONE)
    again.load_state_dict(sampler.state_dict())
    here, there = (one.collect(ScriptedCollection(4)).prompts for one in (sampler, again))
    assert here == there


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"candidates": 0.5}, "candidates >= 1"),
        ({"target": 1.0}, "0 < target < 1"),
        ({"prior": 0}, "prior > 0"),
        ({"group_size": 1}, "group_size >= 2"),
    ],
)
def test_impossible_settings_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        EdgeSampler(**arguments)


def test_what_does_not_fit_the_run_is_said() -> None:
    with pytest.raises(ValueError, match=r"a rollout needs 4 different prompts of 3: lower model\.prompts_per_rollout"):
        EdgeSampler(2).collect(ScriptedCollection(4, size=3))
    with pytest.raises(RunEndedError, match=r"level is 'source', and prompt '0-0' has the columns \[\]"):
        EdgeSampler(2, level="source").collect(ScriptedCollection(4))
    with pytest.raises(ValueError, match=r"metric is null, and .*; there are b, a: type --model.algorithm.sampler.metric b"):
        EdgeSampler().check(["b", "a"])
    with pytest.raises(ValueError, match=r"metric is 'c', and no reward is named so"):
        EdgeSampler(metric="c").check(["a"])
    EdgeSampler(metric="a").check(["b", "a"])
    assert Prompt(id="x", text="").columns == {}
