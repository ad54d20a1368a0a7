"""Which prompts come again, when, and how often; the same for every number of ranks."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_curriculum import ReplaySampler
from lightrl_workshop import ScriptedCollection, hand_made_experience
from streamed_collection import rollouts

from lightrl.ranks import ALONE

RIGHT, WRONG, HALF = [1.0, 1.0], [0.0, 0.0], [0.0, 1.0]


def test_groups_with_variance_wait_and_others_leave() -> None:
    """1 of 4, all right, 2 of 4; then all wrong of the last one."""
    sampler = ReplaySampler(uses=3)
    sampler.commit(hand_made_experience([1, 0, 0, 0] + [1] * 4 + [1, 1, 0, 0], group=[0] * 4 + [1] * 4 + [2] * 4), ALONE)
    assert sampler.state_dict() == {"waiting": {"p0": [0.25, 1, 1], "p2": [0.0, 1, 1]}, "learnt": 1}
    sampler.commit(hand_made_experience([0, 0, 1, 1, 1, 0], group=[2, 2, 0, 0, 0, 0]), ALONE)
    assert sampler.state_dict() == {"waiting": {"p0": [0.25, 2, 2]}, "learnt": 2}
    sampler.commit(hand_made_experience([0, 1]), ALONE)
    assert sampler.state_dict() == {"waiting": {}, "learnt": 3}


def test_a_prompt_rests_comes_again_and_leaves() -> None:
    """Of 400 prompts every fourth is half right: each of them is used three times, with a rest of two rollouts in between."""
    scores = [HALF, RIGHT, WRONG, RIGHT]
    asked, _ = rollouts(lambda: ReplaySampler(2, share=0.5, cooldown=2, uses=3), 1, 8, 400, 30, scores)
    when: dict[str, list[int]] = {}
    for number, rollout in enumerate(asked):
        for prompt in rollout:
            when.setdefault(prompt, []).append(number)
    with_signal = {prompt: at for prompt, at in when.items() if int(prompt) % 4 == 0}
    assert max(Counter(map(len, with_signal.values()))) == 3
    assert all(len(at) == 1 for prompt, at in when.items() if prompt not in with_signal)
    assert min(later - before for at in with_signal.values() for before, later in pairwise(at)) == 3


@settings(deadline=None, max_examples=15)
@given(st.integers(8, 40), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 3))
def test_ranks_choose_together_and_no_prompt_twice(size: int, share: float, cooldown: int) -> None:
    runs = [rollouts(lambda: ReplaySampler(2, share, cooldown), ranks, 8, size, 5, [HALF, RIGHT, HALF]) for ranks in (1, 2, 4)]
    for asked, samplers in runs:
        assert asked == runs[0][0]
        assert all(len(set(rollout)) == 8 for rollout in asked)
        assert all(sampler.state_dict() == runs[0][1][0].state_dict() for sampler in samplers)


def test_the_share_is_a_bound_and_the_number_is_reported() -> None:
    sampler = ReplaySampler(2, share=0.5, cooldown=0)
    sampler.load_state_dict({"waiting": {f"0-{i}": [0.0, 1, 1] for i in range(50, 60)}, "learnt": 1})
    collection = ScriptedCollection(4)
    scored = sampler.collect(collection)
    assert [prompt.id for prompt in scored.prompts[::2]] == ["0-50", "0-51", "0-0", "0-1"]
    assert collection.reports["sampling/replayed"] == [2]
