import pytest
from lightrl_workshop import ScriptedCollection, learnt_from

from lightrl.parts.sampler import GroupSampler
from lightrl.ranks import ALONE


class Recorder:
    """A collection that writes down what is asked of it."""

    prompts = 3

    def __init__(self) -> None:
        self.asked: list = []

    def draw(self, n):
        self.asked.append(("draw", n))
        return ["prompt"] * n

    def rollout(self, prompts, n):
        self.asked.append(("rollout", len(prompts), n))
        return "rollout"

    def score(self, rollout):
        self.asked.append(("score", rollout))
        return "scored"

    def rollout_and_score(self, prompts, n, slices):
        self.asked.append(("slices", slices))
        return self.score(self.rollout(prompts, n))

    def total(self, value):
        raise AssertionError("a sampler that keeps everything decides nothing")


def test_the_group_sampler_draws_completes_and_scores_once() -> None:
    collection = Recorder()
    assert GroupSampler(4).collect(collection) == "scored"
    assert collection.asked == [("draw", 3), ("slices", 1), ("rollout", 3, 4), ("score", "rollout")]


def test_a_group_has_at_least_one_completion() -> None:
    with pytest.raises(ValueError, match=r"GroupSampler needs group_size >= 1, got group_size=0"):
        GroupSampler(0)


def test_a_sampler_that_remembers_nothing_commits_nothing() -> None:
    sampler = GroupSampler(2)
    sampler.commit(learnt_from(sampler.collect(ScriptedCollection(2))), ALONE)
    assert sampler.state_dict() == {}
