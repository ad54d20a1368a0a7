"""No program passes tests by other means than doing what they ask."""

from collections.abc import Collection
from typing import Any

import pytest
from forged_objects import OBJECTS, TESTS
from forged_passes import FORGERIES, SQUARE, SUITES, Suite
from lightrl_code import UnitTests

from lightrl import Prompt


def sampled(names: Collection[str], every: int = 4) -> list[Any]:
    """All of them; most only thoroughly."""
    return [pytest.param(name, marks=[] if at % every == 0 else [pytest.mark.thorough]) for at, name in enumerate(names)]


@pytest.fixture(scope="module")
def reward(sandbox_trouble: str) -> UnitTests:
    """In a sandbox where there is one: the programs harm nobody, and the tests are kept from them either way."""
    return UnitTests(limit_s=2.0, unsafe=bool(sandbox_trouble))


def scored(reward: UnitTests, suite: str, program: str) -> float:
    asked = SUITES[suite]
    return reward.score(Prompt(id="p", text="?"), program, tests=asked.tests, entry_point=asked.entry_point, setup=asked.setup)


def passes(reward: UnitTests, asked: Suite, program: str) -> float:
    """The score; 0 where the row fails because only the program could say what a test asks."""
    try:
        return reward.score(Prompt(id="p", text="?"), program, tests=asked.tests, entry_point=asked.entry_point, setup=asked.setup)
    except ValueError:
        return 0.0


@pytest.mark.parametrize("idea", FORGERIES)
def test_a_forged_pass_is_none(idea: str, reward: UnitTests) -> None:
    suite, program = FORGERIES[idea]
    assert passes(reward, SUITES[suite], program) == 0.0


@pytest.mark.parametrize("idea", sampled(OBJECTS))
def test_m5_an_object_that_decides_passes_nothing(idea: str, reward: UnitTests) -> None:
    suite, program = OBJECTS[idea]
    assert passes(reward, TESTS[suite], program) == 0.0


@pytest.mark.parametrize("suite", sampled(TESTS))
def test_what_these_objects_try_to_pass_can_be_passed(suite: str, reward: UnitTests) -> None:
    assert passes(reward, TESTS[suite], TESTS[suite].honest) == 1.0


@pytest.mark.parametrize("suite", SUITES)
def test_what_the_forgeries_try_to_pass_can_be_passed(suite: str, reward: UnitTests) -> None:
    assert scored(reward, suite, SUITES[suite].honest) == 1.0


def test_a_module_that_is_missing_is_an_error_in_the_data_and_not_the_programs_to_bring(reward: UnitTests) -> None:
    program = "class nowhere:\n    allclose = staticmethod(lambda *a: True)\ndef f(n): return 0"
    for tests in ("import nowhere\nassert nowhere.allclose(f(2), 4)", ["import nowhere as nowhere\nassert nowhere.allclose(f(2), 4)"]):
        with pytest.raises(ValueError, match=r"what the tests import fails by itself: .*nowhere"):
            reward.score(Prompt(id="p", text="?"), program, tests=tests)


def test_a_test_that_failed_leaves_no_names_to_the_next(reward: UnitTests) -> None:
    tests = ["got = [f(n) for n in range(3)]\nassert got == [0, 1, 4]", "assert all(value < 5 for value in got)"]
    score = reward.score
    assert score(Prompt(id="p", text="?"), "got = []\ndef f(n): raise ValueError", tests=tests) == 0.0
    assert score(Prompt(id="p", text="?"), SQUARE, tests=tests) == 1.0


def test_an_iterator_may_end_and_a_slice_may_be_asked_for(reward: UnitTests) -> None:
    program = "class Rows:\n    def __getitem__(self, at): return [0, 1, 4, 9][at]\ndef f(): return Rows()\ndef g(): return iter([7])"
    tests = ["assert f()[1:3] == [1, 4]", "i = g()\nassert next(i) == 7 and next(i, None) is None and list(i) == []"]
    assert reward.score(Prompt(id="p", text="?"), program, tests=tests) == 1.0


def test_an_error_in_the_data_is_one_even_where_the_test_catches_everything(reward: UnitTests) -> None:
    with pytest.raises(ValueError, match="gives the program a function"):
        reward.score(Prompt(id="p", text="?"), SQUARE, tests=["try:\n    f(lambda: 1)\nexcept:\n    pass\nassert f(2) == 4"])
