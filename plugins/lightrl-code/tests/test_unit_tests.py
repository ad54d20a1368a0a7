"""Scores of honest programs, with and without the sandbox, which must agree."""

from typing import Any

import pytest
from lightrl_code import UnitTests
from lightrl_code.sandbox import Bubblewrap

from lightrl import Prompt

PROMPT = Prompt(id="p", text="?")
ADD = "def add(a, b):\n    return a + b\n"
STACK = """
class Stack:
    def __init__(self): self.items = []
    def push(self, x): self.items.append(x)
    def __len__(self): return len(self.items)
"""
RAISES = ["try:\n    f('a')\n    assert False\nexcept KeyError as e:\n    assert e.args == ('no a',)"]


@pytest.fixture(params=["sandbox", "unsafe"], scope="module")
def arguments(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "sandbox":
        request.getfixturevalue("in_sandbox")
    return {"unsafe": request.param == "unsafe", "limit_s": 5.0}


@pytest.fixture(scope="module")
def in_sandbox() -> None:
    """Skips what needs bubblewrap; conftest.py warns once where it is missing."""
    try:
        UnitTests()
    except ValueError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("program", "tests", "score"),
    [
        (ADD, ["assert add(1, 2) == 3", "assert add(1, 2) == 4", "assert add('a', 'b') == 'ab'", "assert add([1], [2]) == [1, 2]"], 0.75),
        (ADD, "assert add(1, 2) == 3\nx = 5\nassert add(x, x) == 10\nfor i in range(3):\n    assert add(i, i) == 2 * i", 1.0),
        (ADD, ["import math\nassert math.isclose(add(0.1, 0.2), 0.3)"], 1.0),
        (ADD, ["assert math.isclose(add(0.1, 0.2), 0.3)"], 1.0),
        ("x = 1", ["assert add(1, 2) == 3"], 0.0),
        ("def add(a, b: return", ["assert add(1, 2) == 3"], 0.0),
        ("def f(x): return (1, 2.5, {3: {4}}, None, True, b'x', 2**70, float('inf'), 1j, range(3), frozenset([1]))",
         ["assert f(0) == (1, 2.5, {3: {4}}, None, True, b'x', 2**70, float('inf'), 1j, range(3), frozenset([1]))",
          "assert type(f(0)[0]) is int and type(f(0)[4]) is bool and type(f(0)) is tuple"], 1.0),
        ("def f(x):\n    yield from range(x)", ["assert list(f(3)) == [0, 1, 2]", "assert sum(f(4)) == 6"], 1.0),
        ("def f(x): raise KeyError('no ' + x)", RAISES, 1.0),
        (STACK, ["s = Stack()\ns.push(1)\ns.push([2])\nassert len(s) == 2 and s.items == [1, [2]]"], 1.0),
        ("def f(x): return {'a': [x]}\ndef g(d): return d['a'][0]", ["assert g(f(7)) == 7"], 1.0),
        ("def f(x):\n    print('talking')\n    return input() if x else 1", ["assert f(0) == 1", "assert f(1) == ''"], 0.5),
        ("```python\ndef add(a, b):\n    return a + b\n```", ["assert add(1, 2) == 3"], 1.0),
        ("", ["assert True"], 0.0),
    ],
)  # fmt: skip
def test_the_fraction_of_asserts(program: str, tests: Any, score: float, arguments: dict[str, Any]) -> None:
    assert UnitTests(**arguments).score(PROMPT, program, tests=tests) == score


def test_a_check_of_a_candidate(arguments: dict[str, Any]) -> None:
    tests = "def helper(x): return x + 1\ndef check(candidate):\n    assert candidate(1, b=2) == helper(2)\n"
    reward = UnitTests(**arguments)
    assert reward.score(PROMPT, ADD, answer=tests, entry_point="add") == 1.0
    assert reward.score(PROMPT, ADD.replace("+", "-"), answer=tests, entry_point="add") == 0.0
    solution = "class Solution:\n    def add(self, a, b):\n        return a + b\n"
    assert reward.score(PROMPT, solution, answer=tests, entry_point="Solution().add") == 1.0


def test_a_program_that_continues_its_prompt(arguments: dict[str, Any]) -> None:
    head = 'import math\n\ndef twice(x):\n    return 2 * x\n\ndef f(x):\n    """The root of twice x."""\n'
    prompt = Prompt(id="p", text=head, answer="def check(candidate):\n    assert twice(candidate(8)) == 8\n")
    reward = UnitTests(continues=True, **arguments)
    for completion in (
        "    return math.sqrt(twice(x))\n",
        f"```python\n{head}    return math.sqrt(twice(x))\n```",
        "```python\ndef f(x):\n    return math.sqrt(twice(x))\n```",
    ):
        assert reward.score(prompt, completion, answer=prompt.answer, entry_point="f") == 1.0
    # what the tests use of the prompt is the prompt's, whatever the program makes of it
    cheat = "    return None\ndef twice(x):\n    return 8\n"
    assert reward.score(prompt, cheat, answer=prompt.answer, entry_point="f") == 0.0
    chat = Prompt(id="p", messages=({"role": "user", "content": head},))
    assert reward.score(chat, "    return math.sqrt(twice(x))\n", answer=prompt.answer, entry_point="f") == 1.0
    with pytest.raises(ValueError, match="entry_point"):
        reward.score(prompt, "    return 1\n", answer=prompt.answer)


def test_what_is_read_and_printed(arguments: dict[str, Any]) -> None:
    pairs = [
        {"input": "1 2\n", "output": "3"},
        {"input": "4 5", "output": "9  \n\n"},
        {"input": "1 1", "output": "3"},
        {"input": "", "output": ""},
    ]
    program = "if __name__ == '__main__':\n    a, b = map(int, input().split())\n    print(a + b)\n"
    assert UnitTests(**arguments).score(PROMPT, program, tests=pairs) == 0.5
    assert UnitTests(partial=False, **arguments).score(PROMPT, program, tests=pairs) == 0.0
    assert UnitTests(partial=False, **arguments).score(PROMPT, program, tests=pairs[:2]) == 1.0


def test_a_script_that_prints_and_fails_has_failed(arguments: dict[str, Any]) -> None:
    assert UnitTests(**arguments).score(PROMPT, "print(1)\nraise SystemExit(3)", tests=[{"input": "", "output": "1"}]) == 0.0
    assert UnitTests(**arguments).score(PROMPT, "print(1)\nraise SystemExit(0)", tests=[{"input": "x" * 200_000, "output": "1"}]) == 1.0


def test_changes_in_place_are_seen_where_asked_for(arguments: dict[str, Any]) -> None:
    program = "def f(x, d):\n    x[0].sort()\n    d['n'] = len(x[0])\n"
    tests = ["x, d = [[3, 1, 2]], {}\ny = x[0]\nf(x, d)\nassert x == [[1, 2, 3]] and y is x[0] and d == {'n': 3}"]
    assert UnitTests(in_place=True, **arguments).score(PROMPT, program, tests=tests) == 1.0
    assert UnitTests(**arguments).score(PROMPT, program, tests=tests) == 0.0


def test_what_was_passed_before_the_time_is_over_counts(arguments: dict[str, Any]) -> None:
    program = "def f(x):\n    while x: pass\n    return 0"
    reward = UnitTests(**{**arguments, "limit_s": 0.5})
    assert reward.score(PROMPT, program, tests=["assert f(0) == 0", "assert f(1) == 0", "assert f(0) == 0"]) == pytest.approx(1 / 3)
    pairs = [{"input": "0", "output": "0"}, {"input": "1", "output": "0"}, {"input": "0", "output": "0"}]
    assert reward.score(PROMPT, "x = int(input())\nwhile x: pass\nprint(0)", tests=pairs) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "prompt 'p' has no tests"),
        ({"tests": []}, "prompt 'p' has no tests"),
        ({"tests": [1]}, "prompt 'p' has no tests"),
        ({"tests": [{"input": "x"}]}, "must have the texts 'input' and 'output'"),
        ({"tests": "assert add("}, "the tests are no Python"),
        ({"tests": "x = 1"}, "the tests have no assert"),
        ({"tests": "def check(candidate):\n    assert candidate(1, 2)"}, "no entry_point"),
        ({"tests": ["assert add(lambda: 1, 2)"]}, "gives the program a function"),
        ({"tests": ["assert add(1, 2)"], "setup": "import nothing_like_it"}, "fails by itself"),
    ],
)
def test_broken_tests_are_errors_and_not_zeros(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UnitTests(unsafe=True).score(PROMPT, ADD, **given)


def test_without_bubblewrap_it_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"bubblewrap.*unsafe: true"):
        UnitTests()
    refusing = tmp_path / "bwrap"
    refusing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    refusing.chmod(0o755)
    with pytest.raises(ValueError, match="bwrap: No permissions"):
        UnitTests()
    assert not isinstance(UnitTests(unsafe=True)._sandbox, Bubblewrap)


@pytest.mark.parametrize("limits", [{"limit_s": 0}, {"limit_memory_mb": -1}, {"limit_disk_mb": 0}, {"limit_output_kb": 0}])
def test_limits_must_be_above_zero(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="0"):
        UnitTests(unsafe=True, **limits)


def test_the_rewards_own_time_out_comes_after_the_programs() -> None:
    assert UnitTests(unsafe=True, limit_s=50.0).timeout_s > 50.0
    with pytest.raises(ValueError, match=r"timeout_s .*limit_s"):
        UnitTests(unsafe=True, limit_s=5.0, timeout_s=5.0)
    assert UnitTests(unsafe=True, runs="inline").runs == "inline"


def test_a_config_may_give_the_arguments_of_every_reward() -> None:
    from jsonargparse import ArgumentParser

    from lightrl import Reward

    parser = ArgumentParser()
    parser.add_argument("--rewards", type=dict[str, Reward])
    given = {"class_path": "UnitTests", "init_args": {"unsafe": True, "workers": 3, "gate": "format", "weight": 0.5, "limit_s": 7}}
    reward = parser.instantiate(parser.parse_object({"rewards": {"passed": given}})).rewards["passed"]
    assert (reward.workers, reward.gate, reward.weight, reward.limit_s, reward.timeout_s) == (3, "format", 0.5, 7.0, 37.0)
