"""What a test can say about a program: each finding of an attack has tests by its name."""

from typing import Any

import pytest
from lightrl_code import UnitTests
from right_programs import RIGHT, UNTESTABLE

from lightrl import Prompt

PROMPT = Prompt(id="p", text="?")
ZERO, SQUARE = "def f(n): return 0", "def f(n): return n * n"


@pytest.fixture(scope="module")
def reward(sandbox_trouble: str) -> UnitTests:
    return UnitTests(limit_s=5.0, unsafe=bool(sandbox_trouble))


def scored(reward: UnitTests, program: str, tests: Any, **columns: Any) -> float | str:
    """The score, or why the row failed."""
    try:
        return reward.score(PROMPT, program, tests=tests, **columns)
    except ValueError as error:
        return str(error)


def test_h2_the_main_part_of_a_test_file_runs(reward: UnitTests) -> None:
    tests = "if __name__ == '__main__':\n    assert f(2) == 4\n"
    assert scored(reward, ZERO, tests) == 0.0
    assert scored(reward, SQUARE, tests) == 1.0


@pytest.mark.parametrize(
    "tests",
    [
        "for n in range(f(5)): assert f(n) == n * n",
        "while f(2):\n    assert f(2) == 4\n    break",
        "match f(2):\n    case 4: assert f(3) == 9",
        "if True:\n    def test(): assert f(2) == 4",
        "def check(candidate):\n    assert candidate(0) == 0\n    for n in range(candidate(3)): assert candidate(n) == n * n",
    ],
)
def test_h2_a_test_whose_asserts_are_not_reached_is_an_error_in_the_data(tests: str, reward: UnitTests) -> None:
    assert "did not reach its asserts" in str(scored(reward, ZERO, tests, entry_point="f" if "check" in tests else None))


def test_h2_a_test_without_an_assert_is_an_error_in_the_data(reward: UnitTests) -> None:
    assert "no assert" in str(scored(reward, SQUARE, "def check(candidate): return candidate(2) == 4", entry_point="f"))
    assert "no assert" in str(scored(reward, SQUARE, ["True"]))
    assert "no statement calls" in str(scored(reward, SQUARE, "def test(): assert f(2) == 4"))


def test_h2_an_assert_that_always_fails_fails_the_test_that_catches_it(reward: UnitTests) -> None:
    tests = ["try:\n    f(-1)\n    assert False\nexcept Exception:\n    pass"]
    assert scored(reward, SQUARE, tests) == 0.0
    assert scored(reward, "def f(n): raise ValueError(n)", tests) == 1.0


@pytest.mark.parametrize(
    "tests",
    [
        ["assert True"], ["assert 1 + 1 == 2"], ["assert (f(2) == 4, 'a tuple')"], ["assert f(2) == 4 or True"],
        ["assert f(2) == 4", "assert True"],
        ["assert f(2) == 4", "x = 1\nassert x == 1"], ["assert len([1]) == 1"], "assert True", "x = 1\nassert x == 1",
        "import sys\nsys.exit(0)\nassert f(2) == 4",
        "assert f(2) == 4\nexit()",
        "assert f(2) == 4\nquit(0)",
        "def check(candidate):\n    x = 1\n    assert x == 1\n    assert True", [{"input": "2", "output": ""}],
    ],
)  # fmt: skip
def test_h2_a_test_that_asks_nothing_of_the_program_is_an_error_in_the_data(tests: Any, reward: UnitTests) -> None:
    for program in (ZERO, SQUARE):
        assert isinstance(scored(reward, program, tests, entry_point="f" if "check" in tests else None), str)


def test_h2_an_assert_of_true_beside_others_does_no_harm(reward: UnitTests) -> None:
    tests = "def check(candidate):\n    assert True, 'this prints if it fails'\n    assert candidate(2) == 4\n    assert True\n"
    assert scored(reward, ZERO, tests, entry_point="f") == 0.0
    assert scored(reward, SQUARE, tests, entry_point="f") == 1.0


@pytest.mark.parametrize("where", ["{}", "def f(n):\n    {}", "import atexit\natexit.register(lambda: exec({!r}))\ndef f(n): return 0"])
@pytest.mark.parametrize("ends", ["exit()", "import sys; sys.exit(0)", "import os; os._exit(0)", "raise SystemExit(0)"])
def test_h2_a_program_that_ends_itself_before_an_assert_passes_nothing(where: str, ends: str, reward: UnitTests) -> None:
    program = where.format(ends)
    assert scored(reward, program, ["assert f(2) == 4", "assert f(3) == 9"]) == 0.0
    assert scored(reward, program, "def check(candidate):\n    assert candidate(2) == 4", entry_point="f") == 0.0
    assert scored(reward, program, [{"input": "2", "output": "4"}]) == 0.0


def test_m3_a_function_called_as_one_of_python_needs_an_entry_point(reward: UnitTests) -> None:
    program, tests = "def sum(a, b): return a + b", ["assert sum(10, 15) == 25"]
    assert "needs an entry_point" in str(scored(reward, program, tests))
    assert scored(reward, program, tests, entry_point="sum") == 1.0


@pytest.mark.parametrize("uses", RIGHT)
def test_m3_a_right_program_passes(uses: str, reward: UnitTests) -> None:
    tests, program = RIGHT[uses]
    assert scored(reward, program, tests) == 1.0


@pytest.mark.parametrize("uses", UNTESTABLE)
def test_m3_a_test_that_cannot_be_passed_fails_the_row(uses: str, reward: UnitTests) -> None:
    tests, program = UNTESTABLE[uses]
    assert isinstance(scored(reward, program, tests), str)


def test_m3_an_attribute_that_cannot_be_set_is_not(reward: UnitTests) -> None:
    assert scored(reward, "class C: __slots__ = ()", ["c = C()\nc.value = 5\nassert c.value == 5"]) == 0.0


@pytest.mark.parametrize("indent", ["    ", "\t", "  "])
def test_m3_a_prompt_may_end_in_the_head_of_a_method(indent: str, sandbox_trouble: str) -> None:
    prompt = Prompt(id="p", text=f"class A:\n{indent}def f(self, n):\n")
    check = "def check(candidate):\n    assert candidate(3) == 9\n"
    reward = UnitTests(continues=True, unsafe=bool(sandbox_trouble))
    assert reward.score(prompt, f"{indent * 2}return n * n\n", tests=check, entry_point="A().f") == 1.0


def test_m4_names_that_a_function_of_the_tests_assigns_are_the_tests_own(reward: UnitTests) -> None:
    prepares = "def prepare():\n    global got, want\n    got, want = f(2), 4\n"
    tests = f"{prepares}try:\n    prepare()\nexcept ValueError:\n    pass\nassert got == want"
    assert scored(reward, "got = want = 0\ndef f(n): raise ValueError", tests) == 0.0
    assert scored(reward, SQUARE, tests) == 1.0


def test_m5_a_length_is_asked_once(reward: UnitTests) -> None:
    tests = ["r = f(3)\nassert len(r) == 3 and all(r[i] == i * i for i in range(len(r)))"]
    twice = "class R:\n    n = 6\n    def __len__(self):\n        self.n -= 3\n        return self.n\ndef f(n): return R()"
    assert scored(reward, twice, tests) == 0.0
    assert scored(reward, "def f(n): return [i * i for i in range(n)]", tests) == 1.0


def test_m5_what_is_in_an_object_is_not_the_programs_to_say(reward: UnitTests) -> None:
    endless = UnitTests(limit_s=1.0, unsafe=reward.unsafe)
    assert scored(endless, "import itertools\ndef f(n): return itertools.count()", ["assert 49 in f(7)"]) == 0.0
    says = "class S:\n    def __contains__(self, n): return True\ndef f(n): return S()"
    assert "only the program could say" in str(scored(reward, says, ["assert 49 in f(7)"]))


def test_a_line_of_output_ends_at_a_line_break_alone(reward: UnitTests) -> None:
    assert scored(reward, "print('1\\x0c2')", [{"input": "", "output": "1\n2"}]) == 0.0
