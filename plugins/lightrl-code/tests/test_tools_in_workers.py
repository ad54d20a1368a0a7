"""Tools in the processes that host episodes: what hangs for good fails its own episode, and no other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from lightrl_code import ToolEnvironment

from lightrl import Prompt
from lightrl.environments.episode_host import EpisodeHost

CHAT = Prompt("p", messages=({"role": "user", "content": "?"},))


def call(name: str) -> str:
    return f"<tool_call>{json.dumps({'name': name})}</tool_call>"


def test_only_the_episode_of_a_tool_that_cannot_be_cut_off_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    names = ["process", "stays", "hangs", "unavailable", "Counter"]
    tools = [f"tool_examples.{name}" for name in names]
    host = EpisodeHost(ToolEnvironment(tools, tool_timeout_s=0.2, timeout_s=1.0, workers=1))
    try:
        opened = host.begin([(number, CHAT, 7) for number in range(5)]).result()
        assert [answer.said for answer in opened] == [list(CHAT.messages or ())] * 5
        host.reply([(4, call("up"))]).result()
        turns = [call("process"), call("stays"), call("hangs"), call("unavailable"), call("up")]
        answers = host.reply(list(enumerate(turns))).result()
    finally:
        host.close()
    inside, stuck, hung, missing, counted = answers
    assert inside.reply is not None
    assert hung.reply is not None
    assert counted.reply is not None
    assert not isinstance(inside.reply.said, str)
    assert int(inside.reply.said[0]["content"]) != os.getpid()
    assert inside.reply.said[0] | {"content": ""} == {"role": "tool", "name": "process", "tool_call_id": "call00001", "content": ""}
    assert stuck.late
    assert hung.reply.said == [{"role": "tool", "name": "hangs", "tool_call_id": "call00001", "content": "Error: no result within 0.2 s"}]
    assert hung.reply.counts == {"tools/hangs/calls": 1, "tools/hangs/errors": 1}
    assert missing.error is not None
    assert missing.error.startswith("ToolUnavailableError: the service is down")
    assert counted.reply.said == [{"role": "tool", "name": "up", "tool_call_id": "call00002", "content": "9"}]
