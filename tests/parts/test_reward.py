import pytest

from lightrl.parts.function import Function, accepted_names
from lightrl.types import Prompt

PROMPT = Prompt(id="1", text="2+2=", answer="4", columns={"level": 3})


@pytest.fixture
def module(tmp_path, monkeypatch) -> str:
    (tmp_path / "throwaway_rewards.py").write_text(
        "LIMIT = 3\n"
        "def exact(completion: str, answer: str) -> float:\n    return float(completion == answer)\n"
        "def everything(**columns):\n    return sorted(columns)\n"
        "def optional(completion, level=0):\n    return level\n"
        "def _hidden():\n    return 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "throwaway_rewards"


def columns() -> dict:
    return {"answer": PROMPT.answer, **PROMPT.columns}


def test_a_function_gets_what_it_names(module: str) -> None:
    assert Function(f"{module}.exact").score(PROMPT, "4", **columns()) == 1.0
    assert Function(f"{module}.exact").score(PROMPT, "5", **columns()) == 0.0
    assert Function(f"{module}.optional").score(PROMPT, "5", **columns()) == 3
    assert Function(f"{module}.everything").score(PROMPT, "5", **columns()) == ["answer", "completion", "level", "prompt"]


def test_which_names_a_function_takes_and_which_it_must_have(module: str) -> None:
    assert Function(f"{module}.optional").accepts == {"completion": True, "level": False}
    assert Function(f"{module}.everything").accepts is None
    assert accepted_names(Function.score) is None


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("exact", "'exact' is no import path, package.module.name"),
        ("no_such_package.exact", "cannot be imported: No module named 'no_such_package'"),
        ("throwaway_rewards.exakt", r"throwaway_rewards.py\) has no 'exakt'; it has: everything, exact, optional"),
        ("throwaway_rewards.LIMIT", "'throwaway_rewards.LIMIT' is int"),
    ],
)
@pytest.mark.usefixtures("module")
def test_a_function_that_is_not_there_is_named(path: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Function(path)


def test_the_weight(module: str) -> None:
    assert Function(f"{module}.exact").weight == 1.0
    assert Function(f"{module}.exact", weight=0).weight == 0
