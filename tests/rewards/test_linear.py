"""Every inline reward that a package brings is linear in the completion, since nothing can stop it."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lightrl import Prompt, RowReward
from lightrl.registry.classes import registry
from lightrl.rewards.row_call import named_arguments

UNITS = [
    "_", " ", "a", "a ", "A ", "A!", "1", "1,", "1,234,", "9.", ".", "?!", "\n", "*", "-", "/", "=", "$", "$ ", "(", "{", "}", "<", "<_",
    "<<", "<answer>",
    "```", "```\n", "\\", "\\[", "\\(", "\\boxed{", "\\text{", "\\frac{1}{", "answer", "answer ", "answer is ", "5 or ", "####", "</think>",
    "<think>", "option ", "\u4e2d", "\u3002", "**",
]  # fmt: skip
AROUND = [("", ""), ("A", "x"), ("The answer is ", "!"), ("\\boxed{", "}")]
SHORT, FACTOR = 2_000, 4
"""Characters of the shorter text, and how much longer the other one is."""
NOISE_S = 0.05
"""Seconds that measuring may add."""

COLUMNS: dict[str, dict[str, Any]] = {"EarlyWin": {"turns": 1, "state": {"won": True}}, "MultipleChoice": {"answer": "A"}}
"""What rewards take beside prompt and completion, where it is not the answer 5."""
GIVEN_UP_IN_TIME = {"RegularExpression"}
"""Their cost is that of the user's pattern, and `limit_s` ends them."""


def row_rewards() -> list[type[RowReward]]:
    return [cls for _, cls in registry().of_kind("reward") if issubclass(cls, RowReward) and cls.__name__ not in GIVEN_UP_IN_TIME]


INLINE = [cls for cls in row_rewards() if cls.runs == "inline"]
READING = [cls for cls in row_rewards() if cls.runs != "inline" and cls.answer_in is not RowReward.answer_in]
"""Evaluations read answers in the training process, wherever the reward runs."""


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """Rubbish of other tests is not collected while these measure."""
    gc.disable()
    yield
    gc.enable()


def seconds(call: Callable[[str], object], text: str) -> float:
    """Of processor time: what else runs on the machine does not count."""
    started = time.process_time()
    call(text)
    return time.process_time() - started


def slow_texts(call: Callable[[str], object]) -> list[tuple[str, str, str]]:
    """The texts, as their beginning, what is repeated, and their end, that cost more than in proportion to their length."""
    found = []
    for unit, (before, after) in itertools.product(UNITS, AROUND):
        short, long = (before + unit * (size // len(unit)) + after for size in (SHORT, FACTOR * SHORT))
        if seconds(call, long) > 2 * FACTOR * seconds(call, short) + NOISE_S:
            found.append((before, unit, after))
    return found


@pytest.mark.parametrize("cls", INLINE, ids=lambda cls: cls.__name__)
def test_an_inline_reward_is_linear_in_the_completion(cls: type[RowReward]) -> None:
    reward, prompt = cls(), Prompt("p", text="?", answer="5")
    columns = COLUMNS.get(cls.__name__, {"answer": "5"} if "answer" in (named_arguments(reward) or {}) else {})
    assert slow_texts(lambda text: (reward.score(prompt, text, **columns), reward.answer_in(text))) == []


@pytest.mark.parametrize("cls", READING, ids=lambda cls: cls.__name__)
def test_an_answer_is_read_in_linear_time(cls: type[RowReward]) -> None:
    assert slow_texts(cls().answer_in) == []
