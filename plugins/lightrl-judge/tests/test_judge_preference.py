"""Comparisons in both orders."""

import asyncio
from typing import Any

import pytest
from lightrl_judge import Chat, JudgePreference, PairwiseJudge

from lightrl import Prompt
from lightrl.types import Outcome


def answers(body: dict[str, Any]) -> tuple[str, str]:
    a, _, b = body["messages"][1]["content"].partition("</answer A>")
    return a.partition("<answer A>\n")[2].strip(), b.partition("<answer B>\n")[2].removesuffix("\n</answer B>")


def longer(body: dict[str, Any], number: int) -> str:
    a, b = answers(body)
    return f'{{"winner": "{"tie" if len(a) == len(b) else "A" if len(a) > len(b) else "B"}"}}'


def test_the_value_is_the_rate_of_wins(server: Any, scored: Any) -> None:
    server.behaviour = longer
    judge = JudgePreference("m", base_url=server.url)
    assert scored(judge, ["abc", "ab", "a"], answer="xx").reward_parts["judge"].tolist() == [1, 0.5, 0]
    assert len(server.requests) == 6 == 3 * judge.requests(Prompt(id="p", text="?"), "abc", answer="xx")
    assert sorted(answers(body) for body in server.requests)[:2] == [("a", "xx"), ("ab", "xx")]
    assert ("xx", "abc") in [answers(body) for body in server.requests]
    several = JudgePreference("m", base_url=server.url, reference="drafts")
    assert scored(several, ["abc"], drafts=["x", "xxx", "xxxx", "xx"]).reward_parts["judge"].tolist() == [(1 + 0.5 + 0 + 1) / 4]
    assert len(server.requests) == 6 + several.requests(Prompt(id="p", text="?"), "abc", drafts=["x", "xxx", "xxxx", "xx"])


@pytest.mark.parametrize("place", ["A", "B"])
def test_a_judge_that_likes_a_place_says_nothing(place: str, server: Any, scored: Any) -> None:
    server.behaviour = lambda body, number: f'{{"winner": "{place}"}}'
    assert scored(JudgePreference("m", base_url=server.url), ["abc"], answer="x").reward_parts["judge"].tolist() == [0.5]


@pytest.mark.parametrize("reply", ["A", '{"winner": "C"}', '{"winner": 1}', '{"winner": "A"} {"winner": "B"}'])
def test_what_is_no_verdict_is_a_failure(reply: str, server: Any, scored: Any) -> None:
    server.behaviour = lambda body, number: reply
    rows = scored(JudgePreference("m", base_url=server.url, ask_again=1), ["abc"], answer="x")
    assert rows.outcomes["judge"].tolist() == [Outcome.ERROR]
    assert len(server.requests) == 2


@pytest.mark.parametrize(("answer", "words"), [(None, "has nothing in 'answer'"), ([], "has an empty list in 'answer'")])
def test_a_prompt_without_reference_fails(answer: Any, words: str, server: Any, scored: Any, caplog: Any) -> None:
    assert scored(JudgePreference("m", base_url=server.url), ["abc"], answer=answer).outcomes["judge"].tolist() == [Outcome.ERROR]
    assert words in caplog.text


def test_pairs_are_compared_outside_of_a_run(server: Any) -> None:
    server.behaviour = longer
    prompt = Prompt(id="p", text="?", columns={"rubric": "{a}"})

    async def compared(a: str, b: str) -> Any:
        judge = PairwiseJudge(Chat("m", server.url), template="{rubric}<answer A>\n{a}</answer A><answer B>\n{b}\n</answer B>")
        try:
            return await judge.compare(prompt, a, b)
        finally:
            await judge.chat.close()

    verdicts = [asyncio.run(compared(a, b)) for a, b in [("ab", "c"), ("a", "bc"), ("a", "b")]]
    assert [(v.winner, v.value, v.agreed) for v in verdicts] == [("a", 1, True), ("b", 0, True), ("tie", 0.5, True)]
    assert server.asked()[1]["content"].startswith("{a}<answer A>")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"template": "{prompt} {a}"}, r"lacks \{b\}"),
        ({"reference": "prompt"}, "a column of the data"),
        ({"system": 'End with {"winner": "A"}'}, "is no plain field"),
    ],
)
def test_what_cannot_be_asked_for(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        JudgePreference("m", **arguments)
