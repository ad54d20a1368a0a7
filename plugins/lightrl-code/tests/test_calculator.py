"""The calculator, and the warm start of the policy that learns to call it."""

from __future__ import annotations

import random
import re
from itertools import islice

from lightrl_code import ToolEnvironment
from lightrl_code.tools.call_formats import calls_in

from benchmarks.learning import calculator
from lightrl import Prompt

NAMES = ["add", "subtract", "multiply", "divide"]


def test_it_calculates() -> None:
    environment = ToolEnvironment([f"lightrl_code.arithmetic.{name}" for name in NAMES], call_format="python", response="{result};")
    environment.check(frozenset())
    environment.begin(Prompt("p", text="?"), 0)
    calls = ", ".join(
        f"{name}(a={a}, b={b})" for name, a, b in zip([*NAMES, "divide"], (47, 47, 47, 47, 1), (85, 85, 85, 2, 0), strict=True)
    )
    assert environment.reply(f"[{calls}]").said == "132;-38;3995;23.5;Error: ZeroDivisionError: division by zero;"


def test_the_warm_start_calls_seldom_and_often_wrongly() -> None:
    rows = list(islice(calculator.rows(random.Random(0)), 2000))
    first = [(row["prompt"], row["answer"]) for row in rows if row["prompt"].count("=") == 1]
    called = [(prompt, calls_in(answer, "python")[0].positional) for prompt, answer in first if answer.startswith("[")]
    right = [prompt for prompt, (a, b) in called if prompt == f"{a}+{b}="]
    assert 0.35 < len(called) / len(first) < 0.45
    assert 0.45 < len(right) / len(called) < 0.55
    answered = [re.fullmatch(r"\d+\+\d+=\[add\((\d+),(\d+)\)\](\d+)=", row["prompt"]) for row in rows if row["prompt"].count("=") == 2]
    assert len(answered) == len(rows) - len(first)
    assert all(found is not None and int(found[1]) + int(found[2]) == int(found[3]) for found in answered)
