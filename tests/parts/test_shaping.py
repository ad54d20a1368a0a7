import pytest
import torch
from lightrl_workshop.experience import PROMPT, experience

from lightrl.parts.base import unpack
from lightrl.parts.shaping import OutcomeShaping


def shaped(part: OutcomeShaping, rows) -> list[list[float]]:
    out, _ = unpack(part.rewards(rows, rows.token_rewards))
    assert (out[~rows.response_mask] == 0).all()
    return [out[i, rows.response_mask[i]].tolist() for i in range(len(rows))]


def test_an_answer_without_an_end_is_fined() -> None:
    rows = experience([1.0, 1.0], lengths=[2, 2], finish_reason=["stop", "length"])
    assert shaped(OutcomeShaping(missing_eos_penalty=0.75), rows) == [[0, 1], [0, 0.25]]


def test_the_limit_comes_before_the_fine() -> None:
    rows = experience([7.0, -7.0], lengths=[1, 1], finish_reason=["length", "stop"])
    assert shaped(OutcomeShaping(missing_eos_penalty=1, limit=5), rows) == [[4], [-5]]


def test_paid_on_every_token_the_row_gets_the_same() -> None:
    rows = experience([1.0, 3.0], lengths=[4, 1])
    assert shaped(OutcomeShaping(paid="every_token"), rows) == [[0.25] * 4, [3]]


def test_rewards_of_steps_are_added_up_first() -> None:
    rewards = torch.zeros(1, PROMPT + 3)
    rewards[0, PROMPT:] = torch.tensor([1.0, 0.0, 2.0])
    rows = experience([0.0], token_rewards=rewards)
    assert shaped(OutcomeShaping(limit=2), rows) == [[0, 0, 2]]
    assert shaped(OutcomeShaping(paid="every_token"), rows) == [[1, 1, 1]]


@pytest.mark.parametrize("paid", ["last_token", "every_token"])
def test_a_row_without_a_score_or_a_token_gets_nothing(paid: str) -> None:
    rows = experience([1.0, 1.0], lengths=[2, 0], scorable=[False, True], finish_reason=["length", "length"])
    part = OutcomeShaping(missing_eos_penalty=1, paid=paid)
    assert shaped(part, rows) == [[0, 0], []]


def test_a_part_that_would_change_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="OutcomeShaping"):
        OutcomeShaping()


@pytest.mark.parametrize("arguments", [{"missing_eos_penalty": -1}, {"limit": 0}, {"paid": "first_token"}])
def test_impossible_settings_are_refused(arguments: dict) -> None:
    with pytest.raises(ValueError, match="OutcomeShaping"):
        OutcomeShaping(**arguments)
