"""A server that fails in every way: what is repeated, what is given up, what is counted, and that the key shows nowhere."""

import asyncio
import json
import logging
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from lightrl_judge import Budget, JudgeScore
from lightrl_judge.chat import retry_after

from lightrl import Prompt
from lightrl.rewards import dispatch
from lightrl.types import Outcome

V, E, T = Outcome.VALUE, Outcome.ERROR, Outcome.TIMEOUT


def judge(server: Any, **arguments: Any) -> JudgeScore:
    return JudgeScore("m", base_url=server.url, **arguments)


PASSING = {
    "busy": {"status": 429, "raw": b'{"error": {"message": "slow down"}}'},
    "broken": {"status": 500, "raw": b"oh no"},
    "gateway": {"status": 502, "raw": b"<html>"},
    "page": {"raw": b"<html>come back later</html>", "headers": {"Content-Type": "text/html"}},
    "garbage": {"raw": b'{"choices": [{'},
    "no choices": {"raw": b'{"choices": []}'},
    "no message": {"raw": b'{"choices": [{"index": 0}]}'},
    "dropped": {"text": '{"score": 5}', "drop": True},
}


@pytest.mark.parametrize("name", PASSING)
def test_what_may_pass_is_repeated_and_then_a_failure(name: str, server: Any, scored: Any, says: Any, caplog: Any) -> None:
    server.behaviour = lambda body, number: says(**PASSING[name]) if number < 2 else '{"score": 5}'
    assert scored(judge(server, retries=2), ["a"]).reward_parts["judge"].tolist() == [0.5]
    assert len(server.requests) == 3
    server.behaviour = lambda body, number: says(**PASSING[name])
    rows = scored(judge(server, retries=1), ["a"])
    assert rows.outcomes["judge"].tolist() == [E]
    assert len(server.requests) == 5
    assert f"UnavailableError: {server.url}: " in caplog.text


REFUSED = {
    "key": ({"status": 401, "raw": b"{}"}, "does not accept the key in $OPENAI_API_KEY"),
    "model": ({"status": 404, "raw": b'{"error": {"message": "no such model"}}'}, "status 404 for model 'm': "),
    "fields": ({"status": 400, "raw": b'{"error": {"message": "max_tokens is unsupported"}}'}, "max_tokens is unsupported"),
    "quota": ({"status": 429, "raw": b'{"error": {"message": "pay", "code": "insufficient_quota"}}'}, "has no quota left"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_will_not_pass_is_not_repeated(name: str, server: Any, scored: Any, says: Any, caplog: Any) -> None:
    answer, words = REFUSED[name]
    server.behaviour = lambda body, number: says(**answer)
    assert scored(judge(server), ["a"]).outcomes["judge"].tolist() == [E]
    assert len(server.requests) == 1
    assert words in caplog.text
    assert "RefusedError" in caplog.text


def test_a_server_that_hangs_or_is_not_there(server: Any, scored: Any, says: Any, caplog: Any) -> None:
    # the first request of a process imports its client, which may take longer than the limit below
    assert scored(judge(server), ["a"]).outcomes["judge"].tolist() == [V]
    server.behaviour = lambda body, number: says(sleep=4.0)
    assert scored(judge(server, timeout_s=1.5, retries=1), ["a"]).outcomes["judge"].tolist() == [T]
    assert len(server.requests) == 3
    assert scored(JudgeScore("m", base_url="http://127.0.0.1:9/v1", retries=0), ["a"]).outcomes["judge"].tolist() == [E]
    assert "http://127.0.0.1:9/v1: no answer: ConnectError" in caplog.text


def test_a_server_that_asks_for_a_pause_gets_it(server: Any, scored: Any, says: Any) -> None:
    server.behaviour = lambda body, number: says(status=429, headers={"Retry-After": "0.7"}) if number == 0 else '{"score": 5}'
    assert scored(judge(server, retries=1), ["a"]).outcomes["judge"].tolist() == [V]
    assert server.times[1] - server.times[0] >= 0.7


def test_but_no_endless_one(server: Any, scored: Any, says: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "LONGEST_ASKED", 0.1)
    server.behaviour = lambda body, number: says(status=503, headers={"Retry-After": "86400"}) if number == 0 else '{"score": 5}'
    started = time.monotonic()
    assert scored(judge(server, retries=1), ["a"]).outcomes["judge"].tolist() == [V]
    assert time.monotonic() - started < 20


def test_the_header_in_seconds_and_as_a_date() -> None:
    assert [retry_after(text) for text in (None, "", "x", "-3", "7", " 1.5 ")] == [0, 0, 0, 0, 7, 1.5]
    assert 25 < retry_after(formatdate(time.time() + 30, usegmt=True)) <= 30
    assert retry_after(formatdate(time.time() - 30, usegmt=True)) == 0


def test_requests_beyond_the_budget_fail_and_are_counted(server: Any, scored: Any, caplog: Any) -> None:
    subject = judge(server, max_requests=3)
    rows = scored(subject, ["a", "b", "c", "d", "e"])
    assert sorted(rows.outcomes["judge"].tolist()) == [V, V, V, E, E]
    assert len(server.requests) == 3
    assert "failed on 2 of 5 rows" in caplog.text
    assert "BudgetSpentError: max_requests is 3 and 3 are used: raise it and resume" in caplog.text
    assert subject.counts() == {"requests": 3, "tokens": 30}
    assert subject.counts() == {"requests": 0, "tokens": 0}
    resumed = judge(server, max_requests=4)
    resumed.load_state_dict(json.loads(json.dumps(subject.state_dict())))
    assert sorted(scored(resumed, ["a", "b"]).outcomes["judge"].tolist()) == [V, E]


def test_tokens_beyond_the_budget(server: Any, scored: Any, says: Any, caplog: Any) -> None:
    rows = scored(judge(server, max_tokens_total=15, concurrency=1), ["a", "b", "c"])
    assert rows.outcomes["judge"].tolist() == [V, V, E]
    assert "max_tokens_total is 15 and 20 are used" in caplog.text
    server.behaviour = lambda body, number: says('{"score": 5}', usage=None)
    assert scored(judge(server), ["a"]).outcomes["judge"].tolist() == [V]
    assert scored(judge(server, max_tokens_total=15), ["a"]).outcomes["judge"].tolist() == [E]
    assert "the server reports no usage" in caplog.text


def test_repeated_requests_and_second_questions_count(server: Any, scored: Any, says: Any) -> None:
    server.behaviour = lambda body, number: [says(status=500), says("seven"), says('{"score": 7}')][number]
    subject = judge(server, retries=1)
    assert scored(subject, ["a"]).outcomes["judge"].tolist() == [V]
    assert subject.counts() == {"requests": 3, "tokens": 20}
    with pytest.raises(ValueError, match="1 or more"):
        Budget(max_tokens_total=0)


def test_a_missing_key_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ValueError, match=r"OPENAI_API_KEY.*api_key_env"):
        JudgeScore("m")
    monkeypatch.setenv("MY_KEY", " ")
    with pytest.raises(ValueError, match="MY_KEY"):
        JudgeScore("m", api_key_env="MY_KEY")


def test_a_key_in_a_config_is_refused_without_repeating_it(key: str) -> None:
    for arguments in ({"api_key_env": key}, {"base_url": f"https://user:{key}@host/v1"}, {"base_url": f"https://host/v1?key={key}"}):
        with pytest.raises(ValueError, match=r"never the key itself|no user, password or query") as refused:
            JudgeScore("m", **arguments)
        assert key not in str(refused.value)


@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_a_server_that_repeats_the_key(status: int, server: Any, scored: Any, says: Any, key: str, caplog: Any, capfd: Any) -> None:
    caplog.set_level(logging.DEBUG)
    text = f"The key {key} is mine"
    server.behaviour = lambda body, number: says(
        text, status=status, raw=None if status == 200 else json.dumps({"error": {"message": text}}).encode()
    )
    subject = judge(server, retries=0, ask_again=0)
    rows = scored(subject, ["a"])
    assert rows.outcomes["judge"].tolist() == [E]
    assert "$OPENAI_API_KEY" in caplog.text
    shown = [caplog.text, *capfd.readouterr(), repr(subject), json.dumps(subject.state_dict())]
    assert not [text for text in shown if key in text]


def runs_of(key: str, shown: str) -> list[str]:
    """The runs of eight characters of a key that a text has."""
    return [key[at : at + 8] for at in range(len(key) - 7) if key[at : at + 8] in shown]


@pytest.mark.parametrize("status", [200, 400, 429, 500])
def test_h3_no_cut_goes_through_the_key(status: int, server: Any, scored: Any, says: Any, key: str, caplog: Any, capfd: Any) -> None:
    caplog.set_level(logging.DEBUG)
    texts = [f"{'x' * at}{key} is wrong {'y' * 200}" for at in range(0, 82, 6)] + [f"{key[:20]}\u200b{key[20:]}"]

    def behaviour(body: Any, number: int) -> Any:
        text = texts[number % len(texts)]
        if status == 200:
            return says(text, finish_reason=["stop", "length", "content_filter"][number % 3], raw=text.encode() if number % 2 else None)
        return says(status=status, raw=json.dumps({"error": {"message": text}}).encode())

    server.behaviour = behaviour
    subject = judge(server, retries=0, ask_again=0)
    for _ in texts:
        assert scored(subject, ["a"]).outcomes["judge"].tolist() == [E]
    assert len(server.requests) == len(texts)
    assert "$OPENAI_API_KEY" in caplog.text
    assert not runs_of(key, caplog.text + "".join(capfd.readouterr()))


def test_h3_json_in_a_reply_may_spell_the_key_in_another_way(server: Any, key: str) -> None:
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in key)
    server.behaviour = lambda body, number: f'{{"score": "{spelled}"}}'
    subject = judge(server, retries=0, ask_again=0)
    try:
        asyncio.run(subject.score(Prompt(id="p", text="?"), "a"))
    except RuntimeError as error:
        failed: BaseException | None = error
    shown = ""
    while failed is not None:
        shown, failed = f"{shown}\n{failed}", failed.__cause__
    assert "is no number from" in shown
    assert not runs_of(key, shown)


CONFIG = """
rollouts: 2
trainer: {{accelerator: cpu, devices: 1, enable_progress_bar: false, enable_model_summary: false}}
model:
  policy: {{class_path: TinyPolicy, init_args: {{hidden: 16, layers: 1}}}}
  algorithm: {{class_path: GRPO, init_args: {{sampler: {{class_path: GroupSampler, init_args: {{group_size: 4}}}}}}}}
  rewards:
    judge: {{class_path: JudgeScore, init_args: {{model: m, base_url: "{url}", retries: 1, timeout_s: 2, max_error_rate: 1.0}}}}
  engine: {{max_new_tokens: 4}}
  prompts_per_rollout: 4
data:
  train: {{class_path: DigitSorting, init_args: {{examples: 40}}}}
  validation_size: 2
"""


def test_a_run_goes_on_says_how_many_rows_failed_and_keeps_the_key_to_itself(
    server: Any, says: Any, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, capfd: Any
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from lightrl.cli import main

    echo = json.dumps({"error": {"message": f"{key} is wrong"}}).encode()
    ways = [
        f"{{score: {key}}}",
        says(status=400, raw=echo),
        says(status=500, raw=echo),
        says(f"{key}", finish_reason="length"),
        says(drop=True),
    ]
    server.behaviour = lambda body, number: ways[number % 10] if number % 10 < len(ways) else f'{{"score": {number % 7}}}'
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(CONFIG.format(url=server.url))
    assert main(["fit", "--config", "run.yaml"]) == 0
    (events,) = tmp_path.glob("runs/**/events.*")
    log = EventAccumulator(str(events.parent))
    log.Reload()
    failed = [event.value for event in log.Scalars("rewards/judge/failed")]
    assert len(failed) == 2
    assert 0 < sum(failed) < 2
    assert sum(e.value for tag in ("", "val/") for e in log.Scalars(f"{tag}rewards/judge/requests")) == len(server.requests)
    assert all(event.value > 0 for event in log.Scalars("rewards/judge/tokens"))
    assert f"failed on {round(failed[0] * 16)} of 16 rows" in caplog.text
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(file.suffix == ".ckpt" for file in written)
    assert any(b"OPENAI_API_KEY" in file.read_bytes() for file in written)
    assert "$OPENAI_API_KEY" in caplog.text, "the key was repeated to us"
    assert not [file for file in written if key.encode() in file.read_bytes()]
    assert key not in caplog.text + "".join(capfd.readouterr())
