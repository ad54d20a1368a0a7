"""Rewards that misbehave on some completions; the module needs no torch, and neither do the workers that load it."""

from __future__ import annotations

import os
import sys
import time
import zlib
from typing import Any

from lightrl import Prompt, RowReward

KEPT: list[bytearray] = []


def chosen(completion: str, of: int = 10) -> bool:
    """Every so manieth completion, by its content."""
    return zlib.crc32(completion.encode()) % of == 0


def letters(completion: str) -> float:
    return float(len(set(completion)))


def sleeps(completion: str) -> float:
    if chosen(completion):
        time.sleep(1e6)
    return letters(completion)


def raises(completion: str) -> float:
    if chosen(completion):
        raise ArithmeticError("not my day")
    return letters(completion)


def returns_nan(completion: str) -> float:
    return float("nan") if chosen(completion) else letters(completion)


def crashes(completion: str) -> float:
    if chosen(completion):
        os._exit(7)
    return letters(completion)


def always_raises(completion: str) -> float:
    raise ArithmeticError("never")


def leaks(completion: str) -> float:
    KEPT.append(bytearray(40 << 20))
    return letters(completion)


def has_torch(completion: str) -> float:
    return float("torch" in sys.modules)


def process(completion: str) -> float:
    return float(os.getpid())


def server(completion: str) -> float:
    return float(os.getppid())


class Detached(RowReward):
    """Does as the completion says, in a worker."""

    def score(self, prompt: Prompt, completion: str, **columns: Any) -> Any:
        if completion == "list":
            return [1.0, 2.0]
        if completion == "none":
            return None
        if completion == "word":
            return "good"
        if completion == "exit":
            sys.exit("gone")
        if completion == "orphan":
            if os.fork() == 0:
                time.sleep(1e6)
            return 1.0
        return columns.get("answer", 0.5)


class Unloadable(RowReward):
    """Cannot be built again in another process."""

    def __setstate__(self, state: Any) -> None:
        raise OSError("no model file")

    def score(self, prompt: Prompt, completion: str) -> float:
        return 1.0


class Endless(RowReward):
    """Is never built in another process."""

    def __setstate__(self, state: Any) -> None:
        time.sleep(1e6)

    def score(self, prompt: Prompt, completion: str) -> float:
        return 1.0
