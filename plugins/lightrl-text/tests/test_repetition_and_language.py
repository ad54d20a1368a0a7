import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_text import Language, Repetition

from lightrl import Prompt

PROMPT = Prompt(id="p", text="?")


@pytest.mark.parametrize(
    ("n", "completion", "score"),
    [
        (2, "a b a b a", -0.5),  # ab ba ab ba: two of four
        (2, "A b, a B! a", -0.5),
        (1, "a a a a", -0.75),
        (3, "a b c d e", 0.0),
        (4, "a b c d", 0.0),
        (4, "", 0.0),
        (2, "我们 我们 我", -0.5),  # 我们 们我 我们 们我: characters, not words
    ],
)
def test_repetition_by_hand(n: int, completion: str, score: float) -> None:
    assert Repetition(n=n).score(PROMPT, completion) == score


@given(st.text(max_size=60), st.integers(1, 6))
def test_repetition_is_between_minus_one_and_nothing(text: str, n: int) -> None:
    assert -1.0 < Repetition(n=n).score(PROMPT, text) <= 0.0


@given(st.lists(st.sampled_from("abcdef"), min_size=8, max_size=20), st.integers(2, 6))
def test_saying_it_again_costs(words: list[str], times: int) -> None:
    once, often = " ".join(words), " ".join(words * times)
    assert Repetition(n=3).score(PROMPT, often) < Repetition(n=3).score(PROMPT, once) + 1e-9
    assert Repetition(n=3).score(PROMPT, often) <= 3 * 20 / (times * len(words)) - 1 + 0.5


@given(st.permutations(range(12)))
def test_different_words_cost_nothing(words: list[int]) -> None:
    assert Repetition(n=2).score(PROMPT, " ".join(map(str, words))) == 0.0


def test_repetition_wants_a_length() -> None:
    with pytest.raises(ValueError, match="n >= 1"):
        Repetition(n=0)


ENGLISH = "We add three and four and then look at the sum."
GERMAN = "Zuerst addieren wir drei und vier, dann betrachten wir die Summe."
CHINESE = "我们先把三和四相加然后再看结果。"


@pytest.mark.parametrize(("text", "language"), [(ENGLISH, "en"), (GERMAN, "de"), (CHINESE, "zh"), (f"{ENGLISH}\n{ENGLISH}", "en")])
def test_one_language(text: str, language: str) -> None:
    for candidate in ("en", "de", "zh"):
        for among in (None, ("en", "de", "zh")):
            assert Language(candidate, among=among).score(PROMPT, text) == float(candidate == language)


def test_the_share_of_letters() -> None:
    english, german = sum(map(str.isalpha, ENGLISH)), sum(map(str.isalpha, GERMAN))
    assert Language("en").score(PROMPT, f"{ENGLISH} {GERMAN}") == pytest.approx(english / (english + german))
    assert Language("de").score(PROMPT, f"{ENGLISH}\n{GERMAN}") == pytest.approx(german / (english + german))
    chinese = 3 * sum(map(str.isalpha, CHINESE))
    assert Language("zh").score(PROMPT, f"{CHINESE}{ENGLISH}") == pytest.approx(chinese / (chinese + english))


@pytest.mark.parametrize(
    "outside",
    ["$x = \\text{drei und vier und noch etwas mehr}$", "```python\nzuerst_addieren_wir = drei + vier\n```", "<think></think>", "42. 17!"],
)
def test_code_mathematics_and_tags_are_no_language(outside: str) -> None:
    assert Language("en").score(PROMPT, f"{ENGLISH}\n{outside}\n{ENGLISH}") == 1.0
    assert Language("en").score(PROMPT, outside) is None


@given(st.text(max_size=80))
@settings(max_examples=40, deadline=None)
def test_every_text_has_a_share_or_none(text: str) -> None:
    score = Language("en", shortest=1).score(PROMPT, text)
    assert score is None or 0.0 <= score <= 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"language": "english"}, "does not know english"),
        ({"language": "en", "among": ("en", "xx")}, "does not know xx"),
        ({"language": "en", "among": ("de", "fr")}, "to hold 'en'"),
        ({"language": "en", "among": ("en",)}, "at least one other"),
        ({"shortest": 0}, "shortest >= 1"),
    ],
)
def test_languages_that_cannot_be_asked_for(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Language(**arguments)  # type: ignore[arg-type]
