"""Verdicts of a teacher on pairs of an answer and a completion, in the forms of GSM8K and MATH."""

import json
from pathlib import Path

import pytest
from lightrl_math import Boxed, FinalNumber, MathAnswer, MultipleChoice
from lightrl_math.number import final_number, reference_number

from lightrl import Prompt

PROMPT = Prompt(id="p", text="?")
PAIRS = [json.loads(line) for line in (Path(__file__).parent / "verdicts.jsonl").read_text().splitlines()]


def accepted(reward: FinalNumber | MathAnswer, pairs: list[list[object]], right: bool) -> list[tuple[object, object]]:
    """The pairs of this label that the reward accepts."""
    return [(ref, said) for label, ref, said in pairs if label is right and reward.score(PROMPT, str(said), answer=ref) == 1.0]


def test_m6_there_are_three_hundred_pairs() -> None:
    assert len(PAIRS) >= 300
    assert sum(not right for right, _, _ in PAIRS) >= 140


def test_m6_math_answer_accepts_nothing_wrong_and_little_right_is_lost() -> None:
    assert accepted(MathAnswer(), PAIRS, right=False) == []
    right = sum(label for label, _, _ in PAIRS)
    assert len(accepted(MathAnswer(), PAIRS, right=True)) >= 0.97 * right


def test_m6_final_number_accepts_nothing_wrong_and_little_right_is_lost() -> None:
    pairs = [pair for pair in PAIRS if reference_number(pair[1]) is not None]
    assert accepted(FinalNumber(), pairs, right=False) == []
    right = sum(label for label, _, _ in pairs)
    assert len(accepted(FinalNumber(), pairs, right=True)) >= 0.8 * right


@pytest.mark.parametrize(
    ("completion", "number"),
    [
        ("The answer is negative 5", -5),
        ("minus 5", -5),
        ("\uff0d5", -5),
        ("5 million", 5_000_000),
        ("2 dozen", 24),
        ("5e3", 5000),
        ("1.5E-3", 0.0015),
        ("#### Step 5\nso \\boxed{7}", 7),
        (r"\boxed{{5}}", 5),
        ("\u00bd", 0.5),
        ("5 minus 3 = 2", 2),
        ("\u20135", -5),
        ("5 dozens", 60),
        ("The answer is 5. No other number will do: 6 is even.", 5),
        ("The answer is 5. Wait, let me check: 2 + 3 = 5. Yes.", 5),
        ("It could be 6 or 7, but the answer is 5.", 5),
        ("The answer is 6. Wait, no, the answer is 5.", 5),
        ("I'm not sure, but the answer is 5", 5),
        ("4 is wrong so the answer is 5", 5),
        ("I can't say more than that the answer is 5", 5),
        ("#### 5\nLet me know if 2 or 3 steps are unclear.", 5),
    ],
)
def test_m6_numbers_are_read_as_a_person_reads_them(completion: str, number: float) -> None:
    found = final_number(completion)
    assert found is not None
    assert float(found) == number


@pytest.mark.parametrize(
    "completion",
    [
        "5!", "5+", "at least 5", "not 5", "twice 5", "log 5", "sin(5)", "f(5)", "4 | 5", "4 vs. 5", "4 (5)", "4 otherwise 5", "5. Or 6.",
        "10 minus 5", "3 more than 5", "10\u00b3", r"\boxed{4} or \boxed{5}", r"\boxed{x^2 = 5}",
        "never 5", "The answer isn't 5", "cannot be 5", "anything but 5", "not equal to 5", "5 or more", "5 at most", "over 5", "nearly 5",
        "the square root of 5", "half of 5", "5 squared", "5 factorial", "5 hundredths", "5 halves", "5 degrees below zero", "\u00b15",
        "-(5)", "= - 5", "\u221b5", "I don't think the answer is 5", "I do not believe that the final answer is: 5",
        "I'd never say the answer is 5.", "It is wrong that the answer is 5",
    ],
)  # fmt: skip
def test_m6_what_is_no_single_number_is_no_answer(completion: str) -> None:
    assert final_number(completion) is None


@pytest.mark.parametrize(
    "hedge",
    [
        "The answer is RIGHT. Or WRONG.", "The answer is RIGHT. Or maybe WRONG.", "The answer is RIGHT!\nOr it could be WRONG",
        "The answer is RIGHT, or perhaps WRONG.", "The answer is RIGHT. No, WRONG.", "The answer is RIGHT. Alternatively, WRONG.",
        "The answer is RIGHT. Wait, it is WRONG.", "The answer is RIGHT (or WRONG)", "The answer is WRONG or the answer is RIGHT",
        r"\boxed{RIGHT}. Or WRONG.", r"\boxed{RIGHT} or $WRONG$", r"WRONG or \boxed{RIGHT}", r"\boxed{WRONG}. Or \boxed{RIGHT}.",
    ],
)  # fmt: skip
def test_m6_an_answer_with_another_one_beside_it_is_none(hedge: str) -> None:
    boxed = [(Boxed(), "5", "6")] if "boxed" in hedge else []
    for reward, right, wrong in ((FinalNumber(), "5", "6"), (MathAnswer(), "5", "6"), (MultipleChoice(), "A", "B"), *boxed):
        text = hedge.replace("RIGHT", right).replace("WRONG", wrong)
        assert [reward.score(PROMPT, text, answer=answer) for answer in (right, wrong)] == [0.0, 0.0], text


@pytest.mark.parametrize("completion", ["sqrt 5", r"\sin 5", r"The answer is 5 \lor 6", "The answer is 5 + 6i", r"\boxed{5. No, 6.}"])
def test_m6_a_number_that_math_verify_reads_in_something_else_is_no_answer(completion: str) -> None:
    assert [MathAnswer().score(PROMPT, completion, answer=answer) for answer in ("5", "6")] == [0.0, 0.0]


def test_m6_a_box_may_have_braces_or_a_comma_in_it() -> None:
    for inside in ("5.", "5,", "{5}", "{{5}}"):
        for reward in (Boxed(), FinalNumber(), MathAnswer()):
            assert reward.score(PROMPT, rf"\boxed{{{inside}}}", answer="5") == 1.0
