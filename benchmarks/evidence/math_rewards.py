"""Compares the mathematical rewards with labelled answers.

    python -m benchmarks.evidence.math_rewards --gsm8k example_model_solutions.jsonl --math500 test.jsonl

`--gsm8k`: https://github.com/openai/grade-school-math, example_model_solutions.jsonl: four models' solutions of every test question,
each labelled as correct or not. The rewards must agree with every
label. `--math500`: 500 rows with `solution` and `answer`: each solution must score
1 against its own answer; where one scores 1 against the next row's too, both answers are shown.
"""

# ruff: noqa: T201
import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

from lightrl_math import Boxed, FinalNumber, MathAnswer

from lightrl import Prompt, RowReward

PROMPT = Prompt(id="row", text="?")


def rows(path: str) -> list[dict[str, Any]]:
    """The JSON objects of a file with one per line."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]


def gsm8k(path: str, reward: RowReward) -> int:
    """How many of the labels the reward does not meet."""
    start, labels, missed = time.perf_counter(), 0, 0
    for row in rows(path):
        answer = row["ground_truth"].rpartition("A:")[2].strip()
        for said in (value for value in row.values() if isinstance(value, dict)):
            labels += 1
            missed += (reward.score(PROMPT, said["solution"], answer=answer) == 1.0) != said["is_correct"]
    report(f"{type(reward).__name__}, GSM8K", labels - missed, labels, start)
    return missed


def math500(path: str, reward: RowReward) -> int:
    """How many solutions do not score 1 against their own answer."""
    start, table = time.perf_counter(), rows(path)
    right = sum(reward.score(PROMPT, row["solution"], answer=row["answer"]) == 1.0 for row in table)
    report(f"{type(reward).__name__}, MATH-500", right, len(table), start)
    return len(table) - right


def others(path: str, reward: RowReward) -> int:
    """How many solutions score 1 against the next row's answer, if that is written differently; each is printed."""
    start, table = time.perf_counter(), rows(path)
    pairs = [(row, other) for row, other in itertools.pairwise(table) if row["answer"] != other["answer"]]
    fooled = [
        (row["answer"], other["answer"]) for row, other in pairs if reward.score(PROMPT, row["solution"], answer=other["answer"]) == 1.0
    ]
    report(f"{type(reward).__name__}, another's answer refused", len(pairs) - len(fooled), len(pairs), start)
    for said, expected in fooled:
        print(f"  accepted {said!r} for {expected!r}")
    return len(fooled)


def report(what: str, met: int, of: int, start: float) -> None:
    """One line."""
    seconds = time.perf_counter() - start
    print(f"{what:42} {met:5d} of {of}   {seconds:6.2f} s   {60 * of / seconds:9,.0f} rows per minute")


def main() -> int:
    """0 if every expectation is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gsm8k", help="example_model_solutions.jsonl")
    parser.add_argument("--math500", help="test.jsonl")
    given = parser.parse_args()
    wrong = 0
    if given.gsm8k:
        wrong += gsm8k(given.gsm8k, FinalNumber()) + gsm8k(given.gsm8k, MathAnswer())
    if given.math500:
        wrong += math500(given.math500, MathAnswer())
        others(given.math500, MathAnswer())
        math500(given.math500, Boxed())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
