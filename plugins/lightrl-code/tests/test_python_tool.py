"""Python as a tool: its output, its errors, its limits, and what it cannot reach."""

import json
import os

import pytest
from lightrl_code import ToolEnvironment, ToolUnavailableError, python_tool, run_python

from lightrl import Prompt


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("print(47 + 85)", "132\n"),
        ("import math\nprint(math.comb(40, 20), '–')", "137846528820 –\n"),  # noqa: RUF001
        ("x = 1", "The program printed nothing: use print() to see a value."),
        ("if __name__ == '__main__':\n    print('main')", "main\n"),
        ("print('before')\n1 / 0", 'before\nTraceback (most recent call last):\n  File "program.py", line 2, in <module>\n'
         "ZeroDivisionError: division by zero\n"),
        ("print(1", "  File \"program.py\", line 1\n    print(1\n         ^\nSyntaxError: '(' was never closed\n"),
        ("raise SystemExit(3)", "Error: the program ended with exit status 3"),
        ("import os\nprint('HOME' in os.environ, os.path.exists('/etc/passwd'), os.getcwd())", "False False /tmp\n"),
        ("while True:\n    print('x' * 1000)", "Error: the program printed more than 64 KiB"),
    ],
)  # fmt: skip
def test_the_policy_is_told_what_its_program_prints(code: str, output: str) -> None:
    assert run_python(code) == output


@pytest.mark.usefixtures("sandboxed")
def test_a_program_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_tool, "LIMITS", python_tool.Limits(seconds=0.2))
    assert run_python("while True: pass") == "Error: the program did not end within 0.2 s"


@pytest.mark.usefixtures("sandboxed")
def test_it_is_a_tool_of_an_environment() -> None:
    environment = ToolEnvironment(["lightrl_code.run_python"])
    environment.check(frozenset())
    environment.begin(Prompt("p", text="?"), 0)
    called = json.dumps({"name": "run_python", "arguments": {"code": "print(sum(range(10)))"}})
    assert environment.reply(f"<tool_call>{called}</tool_call>").said == "\n<tool_response>\n45\n\n</tool_response>\n"
    late = ToolEnvironment(["lightrl_code.run_python"], tool_timeout_s=0.3)
    late.begin(Prompt("p", text="?"), 0)
    called = json.dumps({"name": "run_python", "arguments": {"code": "while True: pass"}})
    assert late.reply(f"<tool_call>{called}</tool_call>").said == "\n<tool_response>\nError: no result within 0.3 s\n</tool_response>\n"


def test_without_a_sandbox_no_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    python_tool._sandbox.cache_clear()
    monkeypatch.setitem(os.environ, "PATH", "")
    with pytest.raises(ToolUnavailableError, match="apt-get install bubblewrap"):
        run_python("print(1)")
