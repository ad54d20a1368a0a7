"""Replies as hostile or broken judges send them: each is a judgement that stands there or a failure, and none stops the event loop."""

import asyncio
import gzip
import json
import time
from typing import Any

import pytest
from lightrl_judge import JudgeScore
from lightrl_judge.asking import LONGEST
from lightrl_judge.failures import JudgeError

from lightrl import Prompt
from lightrl.types import Outcome

LONGEST_PAUSE_S = 2.0
"""The longest processor time of the loop's thread in which nothing else runs; parsing takes 0.6 s of it at most on a slow core."""

REPLIES: dict[str, tuple[str, float | None]] = {
    "a number in words": ('{"score": "seven"}', None),
    "a number in a text": ('{"score": "7"}', None),
    "a list of scores": ('{"score": [7]}', None),
    "an object of scores": ('{"score": {"value": 7}}', None),
    "too high": ('{"score": 11}', None),
    "below the lowest": ('{"score": -1e-9}', None),
    "a number that is infinite": ('{"score": 1e999}', None),
    "minus infinity": ('{"score": -Infinity}', None),
    "5,000 digits": (f'{{"score": {"7" * 5000}}}', None),
    "5,000 digits behind the point": (f'{{"score": 5.{"0" * 5000}}}', 0.5),
    "minus zero": ('{"score": -0.0}', 0.0),
    "hexadecimal": ('{"score": 0x7}', None),
    "a fraction": ('{"score": 7/10}', None),
    "a percentage": ('{"score": 70%}', None),
    "a comma for the point": ('{"score": 7,5}', None),
    "another alphabet's digits": ('{"score": \u0667}', None),
    "another name": ('{"Score": 7}', None),
    "a letter that looks the same": ('{"sc\u043ere": 7}', None),
    "an escaped name": (r'{"\u0073core": 7}', 0.7),
    "a comment": ('{"score": 7 /* of 10 */}', None),
    "a comma too many": ('{"score": 7,}', None),
    "quotation marks of a text editor": ("{\u201cscore\u201d: 7}", None),
    "a byte order mark in front": ('\ufeff{"score": 7}', 0.7),
    "zeros between": ('\0{"score": 7}\0', 0.7),
    "half of a surrogate pair": (r'{"reason": "\ud800", "score": 7}', 0.7),
    "the direction reversed": ('\u202e{"score": 7}', 0.7),
    "an end of thoughts that comes last": ('{"score": 7}</think>', None),
    "thoughts that disagree behind their end": ('{"score": 7}</think>{"score": 3}', 0.3),
    "two that disagree": ('{"score": 7}\n{"score": 7.1}', None),
    "two that agree": ('{"score": 7}\n{"score": 7.0}', 0.7),
    "one name twice": ('{"score": 7, "score": 7}', None),
    "a list around it": ('[{"score": 7}]', 0.7),
    "a form that calls a function": ('{"name": "submit", "arguments": {"score": 7}}', None),
    "a text of JSON in JSON": (json.dumps({"reply": json.dumps({"score": 7})}), None),
    "a page": ('<html><body>{"score": 7}</body></html>', 0.7),
    "spaces": (" " * 50_000, None),
    "a long reply": ("so " * 20_000 + '{"score": 7}', 0.7),
    "too long a reply": ("x" * LONGEST + '{"score": 7}', None),
    "brackets without end": ("[" * 100_000 + '{"score": 7}', 0.7),
    "objects within each other": ('{"a":' * 2000 + '{"score": 7}' + "}" * 2000, None),
    "beginnings without end": ('{"a":' * 20_000 + '{"score": 7}', None),
    "a hundred thousand braces": ("{" * 100_000, None),
    "braces and quotation marks": ('{"' * 50_000, None),
    "names without a value": ('"score":' * 20_000, None),
    "many judgements that agree": ('{"score": 7}' * 10_000, 0.7),
}


def test_each_reply_is_a_judgement_that_stands_there_or_a_failure(server: Any, scored: Any) -> None:
    names = list(REPLIES)
    server.behaviour = lambda body, number: REPLIES[names[int(body["messages"][-1]["content"].split("#")[1])]][0]
    judge = JudgeScore("m", base_url=server.url, ask_again=0, retries=0, max_error_rate=1.0)
    rows = scored(judge, [f"#{i}#" for i in range(len(names))])
    found = {
        name: round(float(value), 6) if outcome == Outcome.VALUE else None
        for name, value, outcome in zip(names, rows.reward_parts["judge"], rows.outcomes["judge"].tolist(), strict=True)
    }
    assert found == {name: wanted for name, (_, wanted) in REPLIES.items()}


ANSWERS: dict[str, dict[str, Any]] = {
    "a hundred megabytes": {"raw": b" " * 10**8},
    "a refusal of a hundred megabytes": {"raw": b"x" * 10**8, "status": 400},
    "a hundred megabytes packed into one": {"raw": gzip.compress(bytes(10**8), 1), "headers": {"Content-Encoding": "gzip"}},
    "brackets around the answer": {"raw": b"[" * 10**5},
    "a million choices": {"raw": json.dumps({"choices": [{}] * 10**6}).encode()},
}


async def longest_pause(work: Any) -> float:
    """The longest processor time in which the event loop did nothing else while this was awaited: others' load does not count."""
    pauses, task = [0.0], asyncio.ensure_future(work)
    while not task.done():
        before = time.thread_time()
        await asyncio.sleep(0.001)
        pauses.append(time.thread_time() - before)
    with pytest.raises((JudgeError, ConnectionError)):
        task.result()
    return max(pauses)


def pause_of_a_call(server: Any, answer: Any) -> float:
    """The longest processor time for which a judge that gets this answer stops its event loop."""

    async def asked() -> float:
        judge, prompt = JudgeScore("m", base_url=server.url, ask_again=0), Prompt(id="p", text="?")
        server.behaviour = lambda body, number: "nothing" if number == 0 else answer
        # the first request of a process takes its time to load the client
        await longest_pause(judge.score(prompt, "a"))
        try:
            return await longest_pause(judge.score(prompt, "a"))
        finally:
            await judge.close()

    return asyncio.run(asked())


@pytest.mark.parametrize("name", ANSWERS)
def test_no_size_of_an_answer_stops_the_event_loop(server: Any, says: Any, name: str) -> None:
    assert pause_of_a_call(server, says(**ANSWERS[name])) < LONGEST_PAUSE_S


@pytest.mark.parametrize(
    "name", ["a hundred thousand braces", "braces and quotation marks", "beginnings without end", "names without a value"]
)
def test_no_reply_stops_the_event_loop(server: Any, name: str) -> None:
    assert pause_of_a_call(server, REPLIES[name][0]) < LONGEST_PAUSE_S


def test_a_reply_that_is_too_long_is_not_sent_back(server: Any, scored: Any) -> None:
    server.behaviour = lambda body, number: "x" * (LONGEST + 1)
    assert scored(JudgeScore("m", base_url=server.url, ask_again=3, retries=0), ["a"]).outcomes["judge"].tolist() == [Outcome.ERROR]
    assert len(server.requests) == 1


def test_packed_answers_of_a_usual_size_are_read(server: Any, scored: Any, says: Any) -> None:
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": '{"score": 7}'}, "finish_reason": "stop"}]}
    packed = gzip.compress(json.dumps(answer).encode())
    server.behaviour = lambda body, number: says(raw=packed, headers={"Content-Encoding": "gzip"})
    assert scored(JudgeScore("m", base_url=server.url), ["a"]).reward_parts["judge"].tolist() == [pytest.approx(0.7)]
