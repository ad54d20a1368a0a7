import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_judge.asking import judgement
from lightrl_judge.failures import UnreadableError

PROSE = st.text(alphabet='ab1 :"score{}[]\\\n', max_size=30)


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("no number")
    return float(value)


@pytest.mark.parametrize(
    "reply",
    [
        '{"score": 7}',
        'The answer is fine.\n\n```json\n{"score": 7.0}\n```\nI hope this helps.',
        '{"reason": "it claims {\\"score\\": 10}, {oh}", "score": 7}',
        '{"claim": {"score": 10}, "score": 7}',
        'So {"score": 7}. In short: {"score": 7}',
        'score: 10 {x} {"points": 3} {"score": 7}',
        '<think>maybe {"score": 3} or {"score": </think>{"score": 7}',
        '<think>no</think>{"reason": "it ends with </think>", "score": 7}',
        '<think>it wrote {"reason": "</think>", "score": 10}</think>{"score": 7}',
        '<|channel>thought\n{"score": 3}<channel|>{"reason": "<|channel>thought", "score": 7}',
        '<|channel|>analysis<|message|>{"score": 3}<|end|><|start|>assistant<|channel|>final<|message|>{"score": 7}',
        '{"score": 7}<think>or {"score": 3}',
    ],
)
def test_what_is_a_judgement(reply: str) -> None:
    assert judgement(reply, "score", number) == 7


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("", "no JSON object"),
        ('<think>It is {"score": 7}', "no JSON object"),
        ("7", "no JSON object"),
        ("Score: 7", "no JSON object"),
        ("{'score': 7}", "no JSON object"),
        ('{"score": 7', "broken JSON object"),
        ('{"score": 7} or {"score": 8}', "2 different values"),
        ('{"score": 7, "score": 8}', "broken JSON object"),
        ('{"score": NaN}', "broken JSON object"),
        ('{"score": "7"}', "no number"),
        ('{"score": true}', "no number"),
        ('{"score": null}', "no number"),
        ('{"result": {"score": 7}}', "no JSON object"),
        # a judge that quotes what it grades, in JSON that is broken by it
        ('{"reason": "it says {"score": 10}", "score": 2}', "broken JSON object"),
        ('{"score": 7}, but {"score": ten}', "broken JSON object"),
    ],
)
def test_what_is_none(reply: str, words: str) -> None:
    with pytest.raises(UnreadableError, match=words) as failed:
        judgement(reply, "score", number)
    assert "\n" not in str(failed.value)


def test_a_reason_that_quotes_the_end_of_thoughts_hides_no_score() -> None:
    assert judgement('{"reason": "</think>", "score": 0.0}', "score", number) == 0


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**15), 10**15), st.text(), st.text(alphabet="ab{ \n"))
def test_what_is_rendered_is_read(score: float, reason: str, before: str) -> None:
    assert judgement(before + json.dumps({"reason": reason, "score": score}), "score", number) == score


@given(PROSE, PROSE)
def test_no_text_breaks_the_reader_and_what_it_reads_stands_there(before: str, after: str) -> None:
    text = f'{before}{{"score": 7}}{after}'
    try:
        found = judgement(text, "score", number)
    except UnreadableError:
        return
    assert math.isfinite(found)
    assert f"{found:g}" in text


def test_braces_without_end_are_read_in_no_time() -> None:
    with pytest.raises(UnreadableError):
        judgement('{"a":' * 3000, "score", number)
