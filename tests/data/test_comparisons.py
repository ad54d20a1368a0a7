"""A synthetic comparison has a right answer and a wrong one that looks like it."""

import pytest

from lightrl import DigitSorting, SortedPairs


def rejected(source: SortedPairs) -> list[str]:
    return [str(source.prompt(i).columns["rejected"]) for i in range(source.size)]


def test_the_chosen_answer_is_right_and_the_rejected_one_is_a_little_wrong() -> None:
    source, plain = SortedPairs(examples=400), DigitSorting(examples=400)
    for index in range(400):
        prompt, columns = source.prompt(index), source.prompt(index).columns
        assert (prompt.id, prompt.text, prompt.answer) == ((p := plain.prompt(index)).id, p.text, p.answer)
        assert columns["chosen"] == prompt.answer != columns["rejected"]
        assert abs(len(str(columns["rejected"])) - 6) <= 2
    assert rejected(source) == rejected(SortedPairs(examples=400))


def test_wrong_answers_are_in_order_as_often_as_asked() -> None:
    def in_order(share: float) -> float:
        wrong = rejected(SortedPairs(examples=400, ordered=share))
        return sum(list(text) == sorted(text) for text in wrong) / 400

    assert in_order(1.0) == 1.0
    assert in_order(0.0) + 0.2 < in_order(0.5) < 0.9


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(ValueError, match="0 <= ordered <= 1"):
        SortedPairs(ordered=share)
