import copy
import logging
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_math import MathAnswer

from lightrl import Prompt

PROMPT = Prompt(id="p", text="?")
REWARD = MathAnswer(correct=1.0, wrong=-1.0, unparsable=-2.0)


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"so \boxed{\left( 3, \frac{\pi}{2} \right)}.", r"\left( 3, \frac{\pi}{2} \right)"),
        (r"(3,\frac{\pi}{2})", r"(3, \pi/2)"),
        (r"$(3,\frac{\pi}{2})$", r"$(3, \pi/2)$"),
        ("0.5", r"50\%"),
        (r"\boxed{50\%}", "1/2"),
        (r"\boxed{336^\circ}", "336"),
        ("it is 1,000.", 1000),
        (r"\boxed{\$32,348}", r"\$32,\!348"),
        (r"$\frac12$", 0.5),
        ("thus x = 5", "5"),
        (r"\boxed{(x-1)(x+1)}", "x^2 - 1"),
        (r"\boxed{3, 2, 1}", r"1,2,3"),
        (r"\boxed{\text{Evelyn}}", r"\text{Evelyn}"),
        (r"\boxed{[2,5)}", "[2,5)"),
        (r"\boxed{\begin{pmatrix} 1 \\ 2 \end{pmatrix}}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
        (r"\(2\sqrt{2}\)", r"\sqrt{8}"),
        ("A: 72", "Natalia sold 48+24 = <<48+24=72>>72 clips.\n#### 72"),
        (r"\boxed{-\frac{1}{3}}", r"\frac{-1}{3}"),
    ],
)
def test_the_same_written_otherwise(completion: str, answer: object) -> None:
    assert REWARD.score(PROMPT, completion, answer=answer) == 1.0


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"\boxed{1} \boxed{2} \boxed{3}", "2"),
        (r"\boxed{1, 2, 3}", "2"),
        (r"\boxed{(1, 2)}", "(2, 1)"),
        (r"\boxed{(2,5)}", "[2,5)"),
        ("1.414", r"\sqrt{2}"),
        (r"\boxed{\frac{1}{3}}", "0.33"),
        (r"\boxed{x+1}", "x-1"),
        (r"\boxed{12}", "1.2"),
        ("so it is 71", "#### 72"),
    ],
)
def test_another_answer(completion: str, answer: object) -> None:
    assert REWARD.score(PROMPT, completion, answer=answer) == -1.0


@pytest.mark.parametrize("completion", ["", "I do not know.", r"\boxed{}", "...", "no idea, sorry", r"\boxed{1} or \boxed{72}"])
def test_no_answer_at_all(completion: str) -> None:
    assert REWARD.score(PROMPT, completion, answer="72") == -2.0


@pytest.mark.parametrize("answer", [None, True, "", "   "])
def test_a_reference_that_cannot_be_read_is_an_error_and_not_a_zero(answer: object) -> None:
    with pytest.raises(ValueError, match="'p'"):
        REWARD.score(PROMPT, "72", answer=answer)


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**4))
@settings(max_examples=25, deadline=None)
def test_a_fraction_is_itself_and_no_other(above: int, below: int) -> None:
    answer = rf"\frac{{{above}}}{{{below}}}"
    assert REWARD.score(PROMPT, rf"\boxed{{\frac{{{2 * above}}}{{{2 * below}}}}}", answer=answer) == 1.0
    assert REWARD.score(PROMPT, rf"\boxed{{\frac{{{above + 1}}}{{{below}}}}}", answer=answer) == -1.0


def test_the_copy_in_a_worker_scores_the_same() -> None:
    for other in (pickle.loads(pickle.dumps(REWARD)), copy.deepcopy(REWARD)):
        assert other.score(PROMPT, "72", answer="72") == 1.0
        assert vars(other) == vars(REWARD)


def test_it_says_nothing_about_time_outs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        REWARD.score(PROMPT, "72", answer="71")
    assert "Timeout" not in caplog.text
