"""With a bound on rows, others take the places of those that have ended, and every row is what it is alone."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from lightrl_workshop import rollouts_with

from lightrl import Policy, Prompt, Rollout, TransformersEngine
from lightrl.ops.random import uniforms
from lightrl.rollout.decode.incremental import IncrementalModel
from lightrl.rollout.decode.model_forward import ModelForward
from lightrl.rollout.loop import RolloutLoop

sys.path.insert(0, str(Path(__file__).parent))
from hosted_engines import Counting

EngineFor = Callable[..., RolloutLoop]
ReadsOf = Callable[[Policy, RolloutLoop], list[tuple[int, int]]]


def assert_same(found: Rollout, expected: Rollout) -> None:
    assert torch.equal(found.input_ids, expected.input_ids)
    assert torch.equal(found.response_mask, expected.response_mask)
    assert found.completions == expected.completions
    assert found.finish_reason == expected.finish_reason
    torch.testing.assert_close(found.rollout_logprobs, expected.rollout_logprobs, atol=2e-5, rtol=0)


def test_places_are_taken_as_they_become_free(policy: Policy, engine_for: EngineFor, reads_of: ReadsOf, uneven: list[Prompt]) -> None:
    engine = engine_for(policy, max_rows=8, max_new_tokens=60)
    shapes = reads_of(policy, engine)
    rollout = engine.rollout(uneven * 4, 2)
    steps = [rows for rows, width in shapes if width == 1]
    needed = int((rollout.response_lengths - 1).sum())
    assert len(set(rollout.response_lengths.tolist())) > 5
    assert max(steps) <= 8
    assert needed <= sum(steps) <= 1.5 * needed + 64
    # all places but those that wait to be taken, until nobody waits any more and the last rows end
    assert len(steps) <= 1.5 * needed / 8 + 60
    assert sum(1 for rows in steps if rows == 8) > 0.5 * needed / 8


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gpt2", "gemma3"])
@pytest.mark.parametrize("max_rows", [2, 3, 7])
def test_rows_that_join_are_what_they_are_alone(
    policy_of: Callable[..., Policy], engine_for: EngineFor, uneven: list[Prompt], architecture: str, max_rows: int
) -> None:
    policy, many = policy_of(architecture), uneven * 3
    settings = {"max_new_tokens": 70, "stop": ["7"], "top_k": 12}
    assert_same(engine_for(policy, max_rows=max_rows, **settings).rollout(many, 2), engine_for(policy, **settings).rollout(many, 2))


@pytest.mark.parametrize("max_rows", [1, 3, 8])
def test_episodes_join_with_what_was_kept_of_them(policy: Policy, uneven: list[Prompt], max_rows: int) -> None:
    found, expected = (
        rollouts_with(policy, TransformersEngine(6, max_rows=bound), Counting(max_turns=3)).rollout(uneven * 3, 2)
        for bound in (max_rows, None)
    )
    assert_same(found, expected)


@torch.no_grad()
def test_the_batch_does_not_grow_wider_than_its_longest_row(policy: Policy) -> None:
    model = policy.model.eval()
    batch = IncrementalModel(model, 96, lambda: ModelForward(model))
    batch.prefill([[2, 3, 4]], [2])
    tokens = torch.tensor([5, 6])
    for _ in range(10):
        batch.step(tokens)
        # the older of two rows leaves, and another one joins
        batch.keep(torch.tensor([1]))
        further = batch.another()
        further.prefill([[7, 8]], [1])
        batch.join(further)
        for _ in range(3):
            batch.step(tokens)
    # what the older row of the last two has read: 2 tokens of its prompt, and 4 + 3 others
    assert batch.keys[0].shape[2] == 2 + 4 + 3


def test_each_row_has_random_numbers_from_its_own_first_one() -> None:
    seeds, start = torch.tensor([3, 4, 5]), torch.tensor([0, 64, 7])
    found = uniforms(seeds, start, 20)
    assert torch.equal(found, torch.cat([uniforms(seeds[i : i + 1], int(start[i]), 20) for i in range(3)]))
