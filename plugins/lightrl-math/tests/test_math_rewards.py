import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_math import Boxed, FinalNumber, MathAnswer, MultipleChoice
from lightrl_math.number import final_number, reference_number

from lightrl import JsonLines, Prompt, PromptData, RowReward
from lightrl.rewards.reward_set import RewardSet

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
        ("worked out, 10-5=5", 5),
        ("The list:\n- 5 apples", 5),
        ("half, that is .5", 0.5),
        ("18%", 18),
        ("the answer is 3/4", 0.75),
        (r"\boxed{\frac{3}{4}}, found after 12 steps", 0.75),
        (r"first \boxed{3}, at last \boxed{x = 1{,}000}. Checked 2 times.", 1000),
        (r"\boxed{18\text{ dollars}}", 18),
        (r"\boxed{\$18}", 18),
        ("The answer is 3 + 4 = 7 dollars. I checked it 2 times.", 7),
        ("Final answer: **42**", 42),
        ("The answer is:\n\n6.", 6),
        ("<answer>72</answer>", 72),
        ("#### 18 dollars\nI am sure: 100%", 18),
        (r"\boxed{\text{Total: }18\text{ cm}}", 18),
        (r"\boxed{-\frac12}", -0.5),
        (r"\boxed{336^\circ}", 336),
        ("He walks 5km.", 5),
        ("On day 7, 72 apples.", 72),
        ("The answer is 3. It took 2 steps.", 3),
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


@pytest.mark.parametrize(
    "completion",
    [
        "5 or 6", "5 apples or 6 apples", "It is 5 (or 6).", "5, 6", "5 and 6", "from 5 to 6", "5-6", "3:4", "2 + 3", "1,2345", "(0,9)",
        "The answer is 5 or 6.", "The answer is 3 + 4", "#### 5 or 6", "$x > 5$", "x >= 5", r"3\sqrt{2}", "3 sqrt(2)", "5x", "2pi", "x^2",
        "H2O", "vitamin B12", r"\boxed{18", r"\boxed{5} or rather \boxed{6", r"\boxed{5, 6}", r"\boxed{5x}", r"\boxed{5 m}",
        r"\boxed{x=5, y=6}", r"\boxed{x = 5 \text{ or } x = 6}", r"\boxed{3\sqrt{2}}", r"\boxed{2\pi}", r"\boxed{x \geq 5}",
        r"\boxed{10^{5}}", r"\boxed{1\frac{1}{2}}", r"\boxed{\frac{x}{2}}", r"\boxed{y = 2x + 3}", r"\boxed{5 \pm 1}", r"\boxed{}",
        r"\boxed{5x - 7y = 0}",
    ],
)  # fmt: skip
def test_a_hedged_answer_or_a_part_of_an_expression_is_none(completion: str) -> None:
    assert final_number(completion) is None


@given(st.integers(-(10**12), 10**12))
def test_any_way_of_writing_an_integer_is_the_same_number(value: int) -> None:
    for text in (f"so it is {value}.", f"the answer is {value}.00"):
        assert final_number(text) == value
    for text in (f"#### {value:,}", rf"\boxed{{{value}}}", f" {value}. ", f"{value}%", f"${value}$", rf"\${value}", f"{value:,}.0"):
        assert final_number(text) == value == reference_number(text) == reference_number(value)


@given(st.fractions(max_denominator=10**6))
def test_a_fraction_is_one_number(value: Fraction) -> None:
    sign, above, below = "-" * (value < 0), abs(value.numerator), value.denominator
    for text in (str(value), rf"{sign}\frac{{{above}}}{{{below}}}", rf"$\dfrac{{{sign}{above}}}{{{below}}}$"):
        assert reference_number(text) == value == final_number(rf"\boxed{{{text}}}")


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from([" or ", ", ", " and ", "; ", " or maybe even "]))
def test_two_numbers_are_never_an_answer(one: int, other: int, between: str) -> None:
    both = f"{one}{between}{other}"
    for text in (both, f"The answer is {both}.", f"#### {both}", rf"\boxed{{{both}}}"):
        assert final_number(text) is None
    assert reference_number(both) is None


@pytest.mark.parametrize("answer", [72, 72.0, "72", "Natalia sold 48+24 = <<48+24=72>>72 clips.\n#### 72"])
def test_final_number_scores_by_what_it_found(answer: object) -> None:
    reward = FinalNumber(correct=2.0, wrong=-1.0, unparsable=-2.0)
    assert reward.score(PROMPT, "that makes 72.", answer=answer) == 2.0
    assert reward.score(PROMPT, "that makes 71.", answer=answer) == -1.0
    assert reward.score(PROMPT, "many", answer=answer) == -2.0


@pytest.mark.parametrize(
    "answer",
    [
        None, "none", True, float("nan"), float("inf"), "", [72], "$x > 5$", "(0,9)", r"3\sqrt{2}", "B12", "H2O", "5 or 6", "x=5",
        "5 apples",
        "#### 5 apples", "5 6", "5/0", "9" * 5000, "1,2345", "2^3", r"\boxed{5", "Natalia sold 72 clips.",
    ],
)  # fmt: skip
def test_an_answer_that_is_not_one_number_is_an_error_and_not_a_zero(answer: object) -> None:
    prompt = Prompt(id="p", text="?", answer=answer)
    with pytest.raises(ValueError, match=r"'p' is not one number: .*MathAnswer"):
        FinalNumber().score(prompt, "72", answer=answer)
    with pytest.raises(ValueError, match=r"'p' is not one number"):
        FinalNumber().check_prompt(prompt)


@pytest.mark.parametrize(
    ("reward", "answers", "words"),
    [
        (
            FinalNumber(),
            ["72", "1,234", "$x > 5$", "(0,9)"],
            "'it' cannot score 2 of the prompts, the first at train.jsonl:3: .*is not one number",
        ),
        (MultipleChoice(), ["A", "B", "K"], "'it' cannot score 1 of the prompts, the first at train.jsonl:3: .*'K'"),
        (Boxed(), ["A", None], "'it' cannot score 1 of the prompts, the first at train.jsonl:2: .*no answer"),
    ],
)
def test_a_reference_that_cannot_be_read_is_refused_at_the_start_with_its_row(
    reward: RowReward, answers: list[object], words: str, tmp_path: Path
) -> None:
    file = tmp_path / "train.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"Question {n}", "answer": answer}) + "\n" for n, answer in enumerate(answers)))
    data = PromptData(JsonLines(str(file)))
    with pytest.raises(ValueError, match=words):
        RewardSet({"it": reward}).check(data.columns(), data.placed_prompts())
    readable = PromptData(JsonLines(str(file), limit=1))
    RewardSet({"it": reward}).check(readable.columns(), readable.placed_prompts())


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
