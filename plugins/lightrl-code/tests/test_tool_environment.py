"""Tools: what the policy is told, what is counted, and what becomes of tools that misbehave."""

from __future__ import annotations

import copy
import json
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_code import ToolEnvironment, ToolUnavailableError
from lightrl_code.tools.tool_run import run_tool

from lightrl import Prompt, Reply

TEXT = Prompt("p", text="47+85=")
CHAT = Prompt("p", messages=({"role": "user", "content": "What is 47+85?"},), columns={"stock": {"tea": 3}})


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def begun(*tools: str, prompt: Prompt = CHAT, **arguments: Any) -> ToolEnvironment:
    environment = ToolEnvironment([f"tool_examples.{name}" for name in tools], **arguments)
    environment.begin(prompt, seed=7)
    return environment


def call(name: str, /, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def told(reply: Reply) -> list[str]:
    assert not isinstance(reply.said, str)
    return [message["content"] for message in reply.said]


def only(tool: str, /, **arguments: Any) -> str:
    """The answer to one call of a tool."""
    (text,) = told(begun(tool).reply(call(tool, **arguments)))
    return text


def test_several_calls_are_answered_in_order_and_counted() -> None:
    reply = begun("add", "raises").reply(f"Let me see. {call('add', a=47, b=85)} and {call('raises')}\n{call('add', a=1, b=2)}")
    assert reply.said == [
        {"role": "tool", "name": "add", "tool_call_id": "call00001", "content": "132"},
        {"role": "tool", "name": "raises", "tool_call_id": "call00002", "content": "Error: ArithmeticError: not my day"},
        {"role": "tool", "name": "add", "tool_call_id": "call00003", "content": "3"},
    ]
    assert not reply.done
    assert reply.reward is None
    assert reply.counts == {"tools/add/calls": 2, "tools/raises/calls": 1, "tools/raises/errors": 1}
    assert reply.state == {
        "calls": [
            {"name": "add", "arguments": {"a": 47, "b": 85}, "result": "132", "failed": False},
            {"name": "raises", "arguments": {}, "result": "Error: ArithmeticError: not my day", "failed": True},
            {"name": "add", "arguments": {"a": 1, "b": 2}, "result": "3", "failed": False},
        ]
    }


def test_a_turn_without_a_call_ends_the_episode_and_keeps_its_calls() -> None:
    environment = begun("add")
    first = environment.reply(call("add", a=1, b=2))
    assert environment.reply("It is 3.") == Reply(done=True, state=first.state, counts={})
    assert begun("add").reply("") == Reply(done=True, state={"calls": []}, counts={})


@pytest.mark.parametrize(
    "turn",
    [
        "```tool_code\nadd(a=1, b=2)\n```",
        '{"tool": "add", "a": 1, "b": 2}',
        "<add>1, 2</add>",
    ],
)
def test_a_call_in_a_format_that_nobody_reads_is_counted(turn: str) -> None:
    reply = begun("add").reply(turn)
    assert (reply.done, reply.counts) == (True, {"tools/unread_calls": 1})
    assert begun("add").reply(f"<think>{turn}</think>It is 3, if you add up.").counts == {}


def test_a_text_gets_a_text_and_a_conversation_without_tools_a_message_of_the_user() -> None:
    both = call("add", a=1, b=2) + call("add", a=3, b=4)
    assert begun("add", prompt=TEXT).reply(both).said == (
        "\n<tool_response>\n3\n</tool_response>\n\n<tool_response>\n7\n</tool_response>\n"
    )
    assert begun("add", prompt=TEXT, response=" {name}:{result};").reply(both).said == " add:3; add:7;"
    (message,) = begun("add", role="user").reply(both).said
    assert message == {"role": "user", "content": "<tool_response>\n3\n</tool_response>\n\n<tool_response>\n7\n</tool_response>"}


def test_the_opening_is_the_prompts_own_unless_a_text_is_to_describe_the_tools() -> None:
    assert ToolEnvironment(["tool_examples.add"]).begin(CHAT, 0) == list(CHAT.messages or ())
    assert ToolEnvironment(["tool_examples.add"]).begin(TEXT, 0) == "47+85="
    described = ToolEnvironment(["tool_examples.add"], describe=True).begin(TEXT, 0)
    assert isinstance(described, str)
    assert described.endswith(
        '\nA call is written <tool_call>\n{"name": "name", "arguments": {"argument": "value"}}\n</tool_call>\n\n47+85='
    )
    assert "Add two integers." in described


def test_a_conversation_begins_with_the_tools_where_they_are_to_be_described() -> None:
    talk = Prompt("p", messages=({"role": "system", "content": "Be brief."}, {"role": "user", "content": "47+85?"}))
    first, second = ToolEnvironment(["tool_examples.add"], describe=True).begin(talk, 0)
    assert (first["role"], first["content"].endswith("\n\nBe brief."), second) == ("system", True, talk.messages[1])
    assert "Add two integers." in first["content"]


def test_the_schemas_are_those_of_transformers() -> None:
    environment = ToolEnvironment(["tool_examples.add", "tool_examples.triple", "tool_examples.Counter"])
    first, second, up, zero = (schema["function"] for schema in environment.tools)
    assert first == {
        "name": "add",
        "description": "Add two integers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer", "description": "the first."}, "b": {"type": "integer", "description": "the second."}},
            "required": ["a", "b"],
        },
        "return": {"type": "integer"},
    }
    assert [second["name"], up["name"], zero["name"]] == ["triple", "up", "zero"]
    assert up["parameters"]["properties"] == {"by": {"type": "integer", "description": "how far."}}
    assert only("triple", x=14) == "42"


def test_arguments_arrive_as_the_types_that_the_tool_declares() -> None:
    given = {"number": 3, "flag": True, "names": ["a"], "pair": [1, "x"], "unit": "F", "way": 3, "table": {"a": 1}, "anything": [1, None]}
    assert only("kinds", **given, either="3") == repr(
        (3.0, True, ["a"], (1, "x"), __import__("tool_examples").Unit.FAHRENHEIT, 3, {"a": 1.0}, [1, None], "3")
    )
    assert only("kinds", names=None, either=3).startswith("(0.5, False, None,")
    assert only("add", a=1.0, b=2) == "3"


def test_a_turn_with_too_many_calls_is_told_which_were_not_made() -> None:
    reply = begun("add", max_calls=2).reply(call("add", a=1, b=2) * 4)
    assert told(reply) == ["3", "3", "Error: 2 not called, since a turn may have 2 calls"]
    assert reply.counts == {"tools/add/calls": 3, "tools/add/errors": 1}


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("add", {"a": 1}, "Error: add needs 'b'"),
        ("add", {"a": 1, "b": 2, "c": 3}, "Error: add has no argument 'c'; it takes 'a', 'b'"),
        ("add", {"a": 1, "b": "2"}, "Error: add needs 'b' as int, got \"2\""),
        ("add", {"a": 1, "b": True}, "Error: add needs 'b' as int, got true"),
        ("add", {"a": 1, "b": 2.5}, "Error: add needs 'b' as int, got 2.5"),
        ("kinds", {"flag": 1}, "Error: kinds needs 'flag' as bool, got 1"),
        ("kinds", {"number": 10**400}, "Error: kinds needs 'number' as float, got 1" + "0" * 59 + "..."),
        ("kinds", {"names": ["a", 1]}, "Error: kinds needs 'names' as list[str] | None, got [\"a\", 1]"),
        ("kinds", {"pair": [1]}, "Error: kinds needs 'pair' as tuple[int, str], got [1]"),
        ("kinds", {"unit": "K"}, "Error: kinds needs 'unit' as tool_examples.Unit, got \"K\""),
        ("kinds", {"way": "left"}, "Error: kinds needs 'way' as Literal['up', 'down', 3], got \"left\""),
        ("drink", {"beverage": "rum"}, "Error: drink needs 'beverage' as one of 'tea', 'coffee', got \"rum\""),
    ],
)
def test_wrong_arguments_are_told_to_the_policy(tool: str, arguments: dict[str, Any], expected: str) -> None:
    assert only(tool, **arguments) == expected


def test_what_names_no_tool_is_told_and_counted() -> None:
    reply = begun("add", "drink").reply(call("subtract", a=1) + "<tool_call>{nonsense</tool_call>")
    unknown, unreadable = told(reply)
    assert unknown == "Error: there is no tool 'subtract'; there are: add, drink"
    assert unreadable.startswith("Error: the call is no JSON: Expecting property name enclosed in double quotes")
    assert unreadable.endswith('A call is written <tool_call>\n{"name": "name", "arguments": {"argument": "value"}}\n</tool_call>')
    assert reply.counts == {"tools/invalid_calls": 2}
    assert not reply.done


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("raises", "Error: ArithmeticError: not my day"),
        ("leaves", "Error: SystemExit: 3"),
        ("interrupts", "Error: KeyboardInterrupt"),
        ("strange", "<strange>"),
        ("unprintable", "Error: ValueError: no"),
        ("halves", "a?b"),
        ("much", "x" * 4096 + "... (9995904 more characters)"),
    ],
)
def test_whatever_a_tool_does_the_policy_is_told_a_text(tool: str, expected: str) -> None:
    assert only(tool) == expected


def test_an_error_is_cut_as_well() -> None:
    environment = begun("raises", max_result_chars=30)
    assert told(environment.reply(call("raises", message="x" * 1000))) == ["Error: ArithmeticError: xxxxxx... (994 more characters)"]


@pytest.mark.parametrize("tool", ["hangs", "hangs_on"])
def test_a_tool_that_hangs_is_cut_off_and_those_after_it_are_not_called(tool: str) -> None:
    handler, start = signal.getsignal(signal.SIGALRM), time.monotonic()
    hung, missed = told(begun(tool, "add", tool_timeout_s=0.2).reply(call(tool) + call("add", a=1, b=2)))
    assert hung in ("Error: no result within 0.2 s", "at last")
    assert missed == "Error: not called, since the calls of this turn took 0.2 s"
    assert time.monotonic() - start < 20
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_late_tool_says_the_limit_and_not_what_was_left_of_it() -> None:
    assert run_tool(lambda: time.sleep(60), {}, 0.0371, 0.2, 99).text == "Error: no result within 0.2 s"


def test_what_a_tool_prints_does_not_reach_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert only("prints") == "signal"
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "noise\n")


def test_a_tool_that_destroys_its_arguments_does_not_change_what_was_said() -> None:
    reply = begun("destroys").reply(call("destroys", rows=[1, [2]], table={"kept": 1}))
    assert told(reply) == ["0"]
    assert reply.state is not None
    assert reply.state["calls"][0]["arguments"] == {"rows": [1, [2]], "table": {"kept": 1}}


def test_a_tool_that_cannot_work_at_all_fails_the_episode() -> None:
    with pytest.raises(ToolUnavailableError, match="the service is down"):
        begun("unavailable").reply(call("unavailable"))


def test_a_stateful_tool_belongs_to_one_episode() -> None:
    described = ToolEnvironment(["tool_examples.Counter"])
    described.check(frozenset())
    episodes = [copy.deepcopy(described), pickle.loads(pickle.dumps(described))]
    for episode, seed in zip(episodes, (0, 100), strict=True):
        episode.begin(CHAT, seed)
    answers = [told(episode.reply(call("up", by=2) + call("up") + call("zero"))) for episode in (*episodes, episodes[0])]
    assert answers == [["2", "3", "0"], ["102", "103", "0"], ["5", "6", "0"]]


def test_a_stateful_tool_may_ask_for_columns() -> None:
    described = ToolEnvironment(["tool_examples.NeedsColumn"])
    described.check(frozenset({"stock"}))
    with pytest.raises(ValueError, match="ask for stock, which prompts do not have; they have prompt, seed, level"):
        described.check(frozenset({"level"}))
    described.begin(CHAT, 0)
    assert told(described.reply(call("left", item="tea") + call("left", item="rum"))) == ["3", "Error: KeyError: 'rum'"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("add", "'add' is no import path, package.module.name"),
        ("tool_examples.ad", r"tool_examples.py\) has no 'ad'; it has: .*add"),
        ("tool_examples.Counter.down", r"'tool_examples.Counter' \(type\) has no 'down'; it has: up, zero"),
        ("tool_examples.Counter.up", "needs an instance of its class: name the class"),
        ("no_such_package.add", "No module named 'no_such_package'. Is it in the working folder"),
        ("tool_examples.number", "is int, which cannot be called"),
        ("tool_examples.Empty", "has no public method"),
        ("tool_examples.many", r"called with arguments by name, and \*numbers: 'int' has none"),
        ("tool_examples.later", "is async"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(path: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        ToolEnvironment([path])


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("no_docstring", "it has no docstring"),
        ("no_type", "Argument a is missing a type hint"),
        ("no_description", "no description for the argument 'a'"),
        ("odd_type", "Counter"),
    ],
)
def test_a_function_that_cannot_be_described_is_refused_with_what_is_missing_and_the_rule(name: str, missing: str) -> None:
    with pytest.raises(ValueError, match=f"'tool_examples.{name}' cannot be described.*{missing}.*a section `Args:`"):
        ToolEnvironment([f"tool_examples.{name}"]).check(frozenset())


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"tools": []}, "at least one tool"),
        ({"call_format": "json"}, "call_format auto, deepseek, deepseek_dsml, kimi, harmony"),
        ({"role": "assistant"}, "role to be 'tool' or 'user'"),
        ({"response": "{result}"}, "a text around it"),
        ({"response": "nothing"}, "a text around it"),
        ({"tool_timeout_s": 10.0}, r"below timeout_s \(10\)"),
        ({"max_calls": 0}, "max_calls >= 1"),
        ({"max_result_chars": 0}, "max_result_chars >= 1"),
        ({"tools": ["tool_examples.add", "tool_examples.add"]}, "two tools are called 'add'"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        ToolEnvironment(**{"tools": ["tool_examples.add"], **arguments})


def test_a_worker_that_unpickles_it_loads_neither_torch_nor_transformers() -> None:
    program = (
        "import pickle, sys; e = pickle.loads(sys.stdin.buffer.read()); from lightrl.prompt import Prompt; "
        "e.begin(Prompt('p', text='1'), 0); print(e.reply('[add(1, 2)]').said, {'torch', 'transformers'} & set(sys.modules))"
    )
    sent = pickle.dumps(ToolEnvironment(["tool_examples.add"], call_format="python", response="={result}="))
    done = subprocess.run(
        [sys.executable, "-c", program], input=sent, capture_output=True, check=True, env={"PYTHONPATH": str(Path(__file__).parent)}
    )
    assert done.stdout.decode() == "=3= set()\n"


@given(st.text(), st.sampled_from(["hermes", "python", "llama", "qwen_coder", "auto"]))
def test_no_text_makes_it_raise(text: str, call_format: str) -> None:
    environment = begun("add", prompt=TEXT, call_format=call_format)
    for turn in (
        text,
        f"<tool_call>{text}",
        f"[add({text})]",
        '{"name": "add", "parameters": ' + text,
        f"<function=add><parameter=a>{text}",
    ):
        reply = environment.reply(turn)
        assert reply.done or reply.said
        json.dumps(reply.state)


def test_low_thousands_of_calls_in_a_turn_have_one_answer() -> None:
    reply = begun("add", max_calls=2).reply(call("add", a=1, b=2) + "<tool_call>" * 8_000)
    assert told(reply)[:1] == ["3"]
    assert len(told(reply)) == 3
    assert told(reply)[2].startswith("Error: 7999 not called")
    assert len(json.dumps(reply.state)) < 2_000


@pytest.mark.parametrize(("number", "said"), [("1e2", "101"), ("100.0", "101"), ("1e300", "Error"), ("1.5", "Error"), ("true", "Error")])
def test_low_an_int_is_what_was_written(number: str, said: str) -> None:
    text = '<tool_call>{"name": "add", "arguments": {"a": NUMBER, "b": 1}}</tool_call>'.replace("NUMBER", number)
    assert told(begun("add").reply(text))[0].startswith(said)
