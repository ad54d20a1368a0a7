from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from lightrl import Teacher, TinyPolicy
from lightrl.policy.policy import Policy
from lightrl.policy.teacher import refuse_other_tokens

STUDENT, TUTOR = TinyPolicy(hidden=8, layers=1, heads=2), TinyPolicy(hidden=16, layers=1, heads=2, seed=5)
IDS = torch.tensor([[3, 5, 7, 9], [4, 6, 8, 2]])
MASK = torch.tensor([[False, True, True, True]] * 2)


def built(**arguments: Any) -> tuple[Policy, Teacher]:
    policy, teacher = STUDENT.build(), Teacher(TUTOR, **arguments)
    teacher.build(policy)
    return policy, teacher


def test_it_says_what_its_own_policy_says_whatever_is_trained() -> None:
    policy, teacher = built(offload="cpu")
    with torch.no_grad():
        assert torch.equal(teacher.logprobs(policy, IDS, MASK, 0.7), TUTOR.build()(IDS, MASK, 0.7).logprobs)


def test_it_is_frozen_and_no_checkpoint_stores_it() -> None:
    policy, teacher = built()
    assert teacher.state_dict() == {}
    with teacher.anchor(policy) as anchor:
        assert not any(parameter.requires_grad for parameter in anchor.parameters())


def test_it_keeps_the_dtype_of_its_source() -> None:
    policy, teacher = STUDENT.build().to(torch.bfloat16), Teacher(TUTOR)
    teacher.build(policy)
    with teacher.anchor(policy) as anchor:
        assert {parameter.dtype for parameter in anchor.parameters()} == {torch.float32}


def test_another_vocabulary_is_refused_and_the_difference_named() -> None:
    other = Teacher(TinyPolicy(alphabet="0123456789=x", hidden=8, layers=1, heads=2))
    with pytest.raises(ValueError, match=r"the teacher reads other tokens than the policy: .* of the policy and 14 of the teacher"):
        other.check(STUDENT.build())


def test_the_same_tokens_in_another_order_are_refused() -> None:
    first, second = (TinyPolicy(alphabet=alphabet).tokenizer() for alphabet in ("ab", "ba"))
    with pytest.raises(ValueError, match=r"2 tokens differ .* 'a' is the id 2 and the id 3; 'b' is the id 3 and the id 2"):
        refuse_other_tokens(first, second)


def test_another_end_of_text_is_refused() -> None:
    ours = TinyPolicy(alphabet="ab").tokenizer()
    theirs = copy.deepcopy(ours)
    theirs.eos_token = "a"
    with pytest.raises(ValueError, match="eos_token_id is 1 and 2"):
        refuse_other_tokens(ours, theirs)


def test_other_ends_in_the_generation_config_are_refused() -> None:
    policy = STUDENT.build()
    policy.eos_token_ids = frozenset({1, 4})
    with pytest.raises(ValueError, match=r"the policy ends its texts with the tokens \[1, 4\] and the teacher with \[1\]"):
        Teacher(TUTOR).build(policy)


def test_rows_longer_than_the_teacher_takes_are_refused() -> None:
    teacher = Teacher(TinyPolicy(hidden=8, layers=1, heads=2, max_positions=3))
    teacher.build(policy := STUDENT.build())
    with pytest.raises(ValueError, match="a row of 4 tokens is longer than the teacher takes, which is 3"):
        teacher.logprobs(policy, IDS, MASK)


def test_a_teacher_without_a_policy_says_what_to_type() -> None:
    with pytest.raises(ValueError, match=r"Type for example: --model.algorithm.teacher.policy PretrainedPolicy"):
        Teacher().check(STUDENT.build())
