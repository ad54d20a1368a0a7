"""Reward functions of TRL's form are known by their signature and called as TRL calls them, one completion at a time."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from lightrl import Function, Prompt
from lightrl.rewards.row_call import named_arguments

TEXT = Prompt(id="1", text="2+2=", answer="4", columns={"level": 3})
CHAT = Prompt(id="2", messages=({"role": "user", "content": "2+2"},), answer="4")
FUNCTIONS = """
import numpy
SEEN = []

def length(completions, **kwargs):
    SEEN.append((completions, kwargs))
    return [float(len(completion)) for completion in completions]

def content(completions, **kwargs):
    return [float(len(completion[0]["content"])) for completion in completions]

def columns(prompts, completions, level, answer):
    return [l + float(a == c) for l, a, c in zip(level, answer, completions)]

def solved(completions, solution, **kwargs):
    return [1.0 for _ in completions]

def abstains(completions, **kwargs):
    return [None]

def array(completions, **kwargs):
    return numpy.array([0.5])

def single(completions, **kwargs):
    return 1.0

def state(completions, trainer_state, **kwargs):
    return [1.0]

def optional_state(completions, trainer_state=None, **kwargs):
    return [1.0]
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "trl_functions.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    return "trl_functions"


def test_texts_and_conversations_come_as_trl_gives_them(functions: str) -> None:
    import trl_functions

    assert Function(f"{functions}.length").score(TEXT, "four", answer="4", level=3) == 4.0
    assert Function(f"{functions}.content").score(CHAT, "four", answer="4") == 4.0
    completions, others = trl_functions.SEEN[-1]
    assert completions == ["four"]
    assert others == {"prompts": ["2+2="], "answer": ["4"], "level": [3]}


def test_columns_come_by_name(functions: str) -> None:
    reward = Function(f"{functions}.columns")
    assert reward.score(TEXT, "4", answer="4", level=3) == 4.0
    assert set(named_arguments(reward) or {}) >= {"level", "answer"}


@pytest.mark.parametrize(("name", "expected"), [("abstains", None), ("array", 0.5), ("optional_state", 1.0)])
def test_what_it_may_return(name: str, expected: float | None, functions: str) -> None:
    assert Function(f"{functions}.{name}").score(TEXT, "x") == expected


def test_a_number_for_all_is_refused_with_both_forms(functions: str) -> None:
    with pytest.raises(TypeError, match=r"single has TRL's form.*returned '1.0'. A function that scores one completion takes `completion`"):
        Function(f"{functions}.single").score(TEXT, "x")


def test_what_there_is_not_here_is_refused_before_the_run(functions: str) -> None:
    with pytest.raises(ValueError, match="'state' has TRL's form and wants trainer_state"):
        Function(f"{functions}.state")


def test_a_column_that_it_must_have_is_missed_before_the_run(functions: str) -> None:
    reward = Function(f"{functions}.solved")
    reward.check({"solution"})
    with pytest.raises(ValueError, match=r"wants solution, which no column of every prompt is called. Columns: level"):
        reward.check({"level"})


def test_it_travels_to_a_worker(functions: str) -> None:
    again: Any = pickle.loads(pickle.dumps(Function(f"{functions}.length")))
    assert again.score(TEXT, "four") == 4.0
