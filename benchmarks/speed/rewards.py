"""The cost of the fabric around rewards: microseconds per row, by where a reward runs.

    python -m benchmarks.speed.rewards [--rows 4096] [--rounds 5] [--rewards MathAnswer ...]

Each reward scores the same rows. The table has the median over rounds, after one round that is not timed. `score` alone is a plain
Python loop over the method of the reward. Further rewards are named by class, as in a config, and score answers to arithmetic.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable

import torch
from lightrl_workshop.experience import experience
from rich.console import Console
from rich.table import Table

from lightrl import AsyncReward, Prompt, Rollout, RowReward
from lightrl.registry.classes import registry
from lightrl.rewards.reward_set import RewardSet


class Trivial(RowReward):
    """Compares two strings."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, answer: str) -> float:
        return float(completion == answer)


class TrivialInWorkers(Trivial):
    """The same in worker processes."""

    runs = "process"


class TrivialInLoop(AsyncReward):
    """The same in an event loop."""

    async def score(self, prompt: Prompt, completion: str, *, answer: str) -> float:  # type: ignore[override]
        await asyncio.sleep(0)
        return float(completion == answer)


def rows(n: int) -> Rollout:
    """Answers to additions, in groups of eight."""
    filled = experience([0.0] * n, lengths=[1] * n, group=[i // 8 for i in range(n)])
    prompts = [Prompt(id=str(i), text=f"What is {i} + {i}?", answer=str(2 * i)) for i in range(-(-n // 8))]
    filled.prompts = [prompts[i // 8] for i in range(n)]
    filled.completions = [f"Adding {i // 8} to itself gives \\boxed{{{i // 4 + i % 2}}}." for i in range(n)]
    return Rollout(**{name: getattr(filled, name) for name in Rollout.__dataclass_fields__})


def microseconds(work: Callable[[], object], n: int, rounds: int) -> float:
    """Per row, the median over rounds."""
    work()
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) / n * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rewards", nargs="*", default=[], help="class names of further rewards")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rollout = rows(chosen.rows)
    trivial = Trivial()
    cases: dict[str, RowReward] = {
        "inline": trivial,
        "inline, cached": Trivial(cache=2 * chosen.rows),
        "2 workers": TrivialInWorkers(workers=2),
        "2 workers, cached": TrivialInWorkers(workers=2, cache=2 * chosen.rows),
        "event loop, 64 at once": TrivialInLoop(concurrency=64),
    }
    cases |= {name: registry().resolve("reward", name)() for name in chosen.rewards}
    table = Table("reward", "microseconds per row", "rows per minute", title=f"{chosen.rows} rows, median of {chosen.rounds}")

    def bare() -> None:
        for prompt, completion in zip(rollout.prompts, rollout.completions, strict=True):
            trivial.score(prompt, completion, answer=prompt.answer)

    found = {"score alone": microseconds(bare, chosen.rows, chosen.rounds)}
    for name, reward in cases.items():
        rewards = RewardSet({"it": reward})
        found[name] = microseconds(lambda rewards=rewards: rewards.score(rollout), chosen.rows, chosen.rounds)  # type: ignore[misc]
        rewards.close()
    for name, cost in found.items():
        table.add_row(name, f"{cost:.1f}", f"{60e6 / cost:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
