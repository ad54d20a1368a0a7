"""Rows made by hand, for tests of parts."""

import pytest
import torch
from lightrl_workshop import hand_made_experience


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
