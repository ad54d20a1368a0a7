import pytest

from lightrl import ExactMatch, Prompt

PROMPT = Prompt(id="p", text="?")


def test_exact_match_ignores_surrounding_white_space_only() -> None:
    assert ExactMatch().score(PROMPT, " 023479\n", answer="023479") == 1.0
    assert ExactMatch().score(PROMPT, "23479", answer="023479") == 0.0
    assert ExactMatch().score(PROMPT, "65", answer=65) == 1.0
    with pytest.raises(ValueError, match="no answer"):
        ExactMatch().score(PROMPT, "None", answer=None)


def test_the_answer_that_votes_is_the_completion_if_anything_is_left_of_it() -> None:
    assert ExactMatch().answer_in(" 42\n") == "42"
    assert ExactMatch().answer_in(" ") is None
