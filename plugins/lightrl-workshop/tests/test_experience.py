"""Rows made by hand, for tests of parts."""

import pytest
import torch
from lightrl_workshop import hand_made_experience

from lightrl import Prompt, TurnReturn


def test_log_probs_and_advantages_are_taken_as_they_are() -> None:
    old, reference, advantages = torch.randn(3, 2, 5)
    rows = hand_made_experience([1.0, 0.0], old_logprobs=old, ref_logprobs=reference, advantages=advantages)
    assert rows.old_logprobs is old
    assert rows.ref_logprobs is reference
    assert rows.advantages is advantages
    assert torch.equal(rows.rollout_logprobs, old)
    plain = hand_made_experience([1.0, 0.0])
    assert plain.ref_logprobs is None
    assert not plain.old_logprobs.any()
    assert not plain.advantages.any()


@pytest.mark.parametrize("name", ["token_rewards", "step_ends", "values", "old_logprobs", "ref_logprobs", "advantages"])
def test_a_tensor_of_another_shape_is_refused(name: str) -> None:
    told = rf"{name} must have shape \[2, 7\], 2 rows of 2 prompt tokens, 4 of the longest response and 1 of padding; got \[2, 4\]"
    with pytest.raises(ValueError, match=told):
        hand_made_experience([1.0, 0.0], lengths=[4, 1], padding=1, **{name: torch.zeros(2, 4)})


def test_what_was_read_between_turns_is_a_gap_and_extras_ids_and_prompts_are_taken() -> None:
    prompts, ids = [Prompt(id="a", text="1="), Prompt(id="b", text="2=")], torch.arange(12).view(2, 6)
    rows = hand_made_experience([1.0, 0.0], lengths=[4, 2], gaps=[[1, 2], []], extras={"near": torch.ones(2)}, ids=ids, prompts=prompts)
    assert rows.response_mask.int().tolist() == [[0, 0, 1, 0, 0, 1], [0, 0, 1, 1, 0, 0]]
    assert rows.attention_mask.int().tolist() == [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]
    assert TurnReturn(gamma=0.5).compute(rows).advantages.tolist() == [[0, 0, 0.5, 0, 0, 1.0], [0.0] * 6]
    assert rows.prompts == prompts
    assert rows.input_ids is ids
    assert rows.extra("near").tolist() == [1.0, 1.0]


@pytest.mark.parametrize("given", [{"gaps": [[1]]}, {"prompts": []}, {"extras": {"near": torch.ones(3)}}])
def test_what_is_not_given_for_each_row_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=rf"{'near' if 'extras' in given else next(iter(given))} must be of 2 rows, got [013]"):
        hand_made_experience([1.0, 0.0], **given)  # type: ignore[arg-type]
