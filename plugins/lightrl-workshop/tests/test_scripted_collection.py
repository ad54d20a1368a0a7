"""A sampler's surroundings without a model, with graded and with failed scores."""

import math

import pytest
from lightrl_dapo import DynamicSampler
from lightrl_workshop import ScriptedCollection

from lightrl import GroupSampler
from lightrl.types import Outcome


def test_scores_go_by_prompt_and_completion_and_begin_anew() -> None:
    collection = ScriptedCollection(prompts=3, scores=[[0.25, 0.5, 0.75], [2.0, math.nan]])
    scored = GroupSampler(group_size=2).collect(collection)
    assert [prompt.answer for prompt in scored.prompts] == [0, 0, 1, 1, 2, 2]
    assert scored.reward_parts["score"].nan_to_num(-1).tolist() == [0.25, 0.5, 2.0, -1.0, 0.25, 0.5]
    assert scored.scorable.tolist() == [True, True, True, False, True, True]
    assert scored.outcomes["score"].tolist() == [Outcome.VALUE] * 3 + [Outcome.ERROR] + [Outcome.VALUE] * 2
    assert collection.reward(scored).isnan().tolist() == [False, False, False, True, False, False]


def test_a_prompt_that_is_asked_again_goes_on_in_its_list() -> None:
    collection = ScriptedCollection(prompts=1, scores=[[0.5, 0.5, 0.5, 0.75]])
    scored = DynamicSampler(group_size=2, zero_variance="resample").collect(collection)
    assert scored.reward_parts["score"].tolist() == [0.5, 0.75]
    assert scored.completions == ["2", "3"]
    assert collection.reports["sampling/prompts"] == [2]


def test_a_group_of_failures_is_replaced() -> None:
    collection = ScriptedCollection(prompts=1, scores=[[math.nan, 1.0], [0.2, 0.9]])
    scored = DynamicSampler(group_size=2).collect(collection)
    assert [prompt.answer for prompt in scored.prompts] == [1, 1]


def test_by_default_completions_score_0_and_1_in_turn_and_zero_variance_prompts_1() -> None:
    scored = GroupSampler(group_size=2).collect(ScriptedCollection(prompts=2, zero_variance=[1]))
    assert scored.reward_parts["score"].tolist() == [0, 1, 1, 1]
    assert scored.scorable.all()


@pytest.mark.parametrize(("scores", "zero_variance"), [([], []), ([[]], []), ([[1.0]], [0])])
def test_a_script_that_says_nothing_or_two_things_is_refused(scores: list[list[float]], zero_variance: list[int]) -> None:
    with pytest.raises(ValueError, match=r"scores .*zero_variance"):
        ScriptedCollection(2, zero_variance=zero_variance, scores=scores)
