import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_math import Boxed, FinalNumber, MathAnswer, MultipleChoice
from lightrl_math.number import final_number, reference_number

from lightrl import Prompt, RowReward

PROMPT = Prompt(id="p", text="?")


@pytest.mark.parametrize(
    ("completion", "number"),
    [
        ("She makes 9 * 2 = $<<9*2=18>>18 every day.\n#### 18", 18),
        ("5 + 3 = 8 eggs\nA: 8", 8),
        ("so the total is $1,234.50.", 1234.5),
        ("#### 5\nno, wait\n#### -7", -7),
        ("#### $-7", -7),
        ("#### -$7", -7),
        ("it is \u22123 degrees", -3),
        ("10-5", 5),
        ("The list:\n- 5 apples", 5),
        ("half, that is .5", 0.5),
        ("18%", 18),
        ("the answer is 3/4", 0.75),
        (r"\boxed{\frac{3}{4}}, found after 12 steps", 0.75),
        (r"first \boxed{3}, at last \boxed{x = 1{,}000}. Checked 2 times.", 1000),
        (r"\boxed{18\text{ dollars}}", 18),
        (r"\boxed{\$18", 18),
        ("The answer is 3 + 4 = 7 dollars. I checked it 2 times.", 7),
        ("Final answer: **42**", 42),
        ("The answer is:\n\n6.", 6),
        ("1,2345", 2345),
        ("9" * 5000, None),
        ("I do not know", None),
        ("He has 5 apples. #### none", None),
        ("", None),
        ("5/0", None),
    ],
)
def test_final_number(completion: str, number: float | None) -> None:
    found = final_number(completion)
    assert (None if found is None else float(found)) == number


@given(st.integers(-(10**12), 10**12))
def test_any_way_of_writing_an_integer_is_the_same_number(value: int) -> None:
    for text in (f"#### {value:,}", f"so it is {value}.", rf"\boxed{{{value}}}", f"the answer is {value}.00"):
        assert final_number(text) == value == reference_number(text) == reference_number(value)


@pytest.mark.parametrize("answer", [72, 72.0, "72", "Natalia sold 48+24 = <<48+24=72>>72 clips.\n#### 72"])
def test_final_number_scores_by_what_it_found(answer: object) -> None:
    reward = FinalNumber(correct=2.0, wrong=-1.0, unparsable=-2.0)
    assert reward.score(PROMPT, "that makes 72.", answer=answer) == 2.0
    assert reward.score(PROMPT, "that makes 71.", answer=answer) == -1.0
    assert reward.score(PROMPT, "many", answer=answer) == -2.0


@pytest.mark.parametrize("answer", [None, "none", True, float("nan")])
def test_an_answer_without_a_number_is_an_error_and_not_a_zero(answer: object) -> None:
    with pytest.raises(ValueError, match="'p'"):
        FinalNumber().score(PROMPT, "72", answer=answer)


@pytest.mark.parametrize(
    ("reward", "completion", "answer"),
    [
        (Boxed(), r"so \boxed{\dfrac{1}{2}}.", r"\frac{1}{2}"),
        (Boxed(), "so one half", None),
        (FinalNumber(), "it costs $1,234.50", "2469/2"),
        (FinalNumber(), "#### 1234.5 dollars", "2469/2"),
        (FinalNumber(), "nothing", None),
        (MathAnswer(), r"2 + 2 = 4, so \boxed{4 x}", "4x"),
        (MathAnswer(), "the answer is 0.50", "1/2"),
        (MultipleChoice(), "<think>A</think> The answer is (c).", "C"),
        (MultipleChoice(), "A or B", None),
    ],
)
def test_the_answer_that_votes(reward: RowReward, completion: str, answer: str | None) -> None:
    assert reward.answer_in(completion) == answer
