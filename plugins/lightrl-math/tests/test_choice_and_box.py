import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_math import Boxed, MultipleChoice
from lightrl_math.boxed import last_box

from lightrl import Prompt

PROMPT = Prompt(id="p", text="?")
LETTERS = "ABCDEFGHIJ"


@pytest.mark.parametrize(
    ("completion", "letter"),
    [
        ("The answer is (C).", "C"),
        ("Answer: C", "C"),
        ("**Answer:** c) Paris", "C"),
        ("the correct answer is option B.", "B"),
        ("Answer: A\nNo, wait. The answer is D.", "D"),
        ("The answer is C, because A is wrong", "C"),
        (r"so $\boxed{\text{(B)}}$", "B"),
        ("C", "C"),
        ("All considered:\n\n(d) none of them", "D"),
        ("<think>The answer is A.</think>The answer is B.", "B"),
        ("The answer is A or B", None),
        (r"\boxed{A, B}", None),
        ("A and B", None),
        ("A dog", None),
        ("I think so", None),
        ("The answer is Paris", None),
        ("Option K", None),
        ("", None),
    ],
)
def test_what_a_completion_chooses(completion: str, letter: str | None) -> None:
    reward = MultipleChoice(correct=1.0, wrong=-1.0, unparsable=-2.0)
    for answer in LETTERS:
        expected = -2.0 if letter is None else (1.0 if answer == letter else -1.0)
        assert reward.score(PROMPT, completion, answer=answer) == expected


@given(st.sampled_from(LETTERS), st.sampled_from(["{}", "({})", "**{}**", "{}.", "The answer is {}.", "Answer: ({})", r"\boxed{{{}}}"]))
def test_any_way_of_choosing(letter: str, way: str) -> None:
    for answer in (letter, letter.lower(), f"({letter})", LETTERS.index(letter)):
        assert MultipleChoice().score(PROMPT, f"Let me see.\n{way.format(letter)}", answer=answer) == 1.0


@pytest.mark.parametrize("answer", [None, "", "K", "AB", 10, -1, True, 2.0])
def test_an_answer_that_is_no_option_is_an_error(answer: object) -> None:
    with pytest.raises(ValueError, match="A, B"):
        MultipleChoice().score(PROMPT, "A", answer=answer)


@pytest.mark.parametrize("options", ["", "A", "AA", "Aa", "A1"])
def test_options_are_two_or_more_letters(options: str) -> None:
    with pytest.raises(ValueError, match="letters"):
        MultipleChoice(options=options)


@pytest.mark.parametrize(
    ("completion", "answer", "score"),
    [
        (r"\boxed{\dfrac{1}{2}}", r"\frac{1}{2}", 1.0),
        (r"\boxed{ \left( 3, \frac{\pi}{2} \right) }.", r"\left(3,\frac{\pi}{2}\right)", 1.0),
        (r"\boxed{90^\circ}", "90", 1.0),
        (r"\boxed{18\text{ dollars}}", r"18 \text{dollars}", 1.0),
        (r"\boxed{\$5.}", 5, 1.0),
        (r"\boxed{5}", r"worked out: \boxed{5}", 1.0),
        (r"\boxed{3}, no: \boxed{4}", "4", 1.0),
        (r"\boxed{3}, no: \boxed{4}", "3", -1.0),
        (r"\boxed{1/2}", r"\frac{1}{2}", -1.0),
        (r"\boxed{}", "4", -2.0),
        (r"\boxed{4", "4", -2.0),
        (r"\boxed{4}, no: \boxed{5", "4", -2.0),
        (r"\boxed{4}, so it is 4", "4", 1.0),
        ("4", "4", -2.0),
        ("", "4", -2.0),
    ],
)
def test_boxed(completion: str, answer: object, score: float) -> None:
    assert Boxed(correct=1.0, wrong=-1.0, unparsable=-2.0).score(PROMPT, completion, answer=answer) == score


def test_boxed_without_an_answer_is_an_error() -> None:
    with pytest.raises(ValueError, match="answer"):
        Boxed().score(PROMPT, r"\boxed{None}", answer=None)


@given(st.text(alphabet="a{}b", max_size=12).filter(lambda s: all(s[:i].count("{") >= s[:i].count("}") for i in range(len(s) + 1))))
def test_a_box_ends_at_its_own_brace(inside: str) -> None:
    balanced = inside + "}" * (inside.count("{") - inside.count("}"))
    assert last_box(rf"x \boxed{{{balanced}}} y}}") == balanced
