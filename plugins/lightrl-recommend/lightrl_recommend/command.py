"""`lightrl recommend`: which algorithm to try first.

Four questions about your task choose, of the situations that were measured, those that are most like it. The algorithms are then in the
order of what they learnt there from equally many completions, with 95 % intervals. A question that is not answered on the command line is
asked on a terminal, where Enter leaves it out; elsewhere it is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lightrl.config import ConfigError
from lightrl_recommend.measured import ANSWERS, QUESTIONS, Measured, Situation, measured
from lightrl_recommend.ranking import Rank, agreement, closest, ranking

EPILOG = """\
share: how much of the way from the start to the best possible score was gone, mean over tasks and seeds.
behind: the difference from the first, on the same tasks and seeds. worse: its interval is below 0; the others are not told apart from the
  first. The intervals are not corrected for the number of algorithms.
rate: the better one of two learning rates, in each task. critic: trains a second model.

Exit status: 0; 2 if something asked for is wrong.
"""
REAL = "SmolLM2-135M-Instruct"


def recommend(words: list[str]) -> int:
    """Carry out `lightrl recommend`."""
    results = measured()
    options = _parser(results).parse_args(words)
    answers = {name: given for name in QUESTIONS if (given := getattr(options, name)) is not None}
    if sys.stdin.isatty() and not (options.json or options.task):
        answers = {**_asked({name: text for name, text in QUESTIONS.items() if name not in answers}), **answers}
    small = [situation for situation in results.situations if situation.model != REAL]
    situations = [each for each in results.situations if each.name in options.task] if options.task else closest(small, answers)
    ranks = [rank for rank in ranking(results, situations) if not (options.no_critic and rank.critic)]
    if not ranks:
        raise ConfigError("--task", f"no algorithm was measured in all of {', '.join(options.task)}: name fewer.")
    if options.json:
        content = {"answers": answers, "situations": [each.name for each in situations], "ranking": [_as_json(rank) for rank in ranks]}
        sys.stdout.write(json.dumps(content, indent=2) + "\n")
        return 0
    _print(results, situations, answers, ranks, options.top)
    return 0


def _parser(results: Measured) -> argparse.ArgumentParser:
    kind: Any = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("lightrl recommend", None, __doc__, EPILOG, formatter_class=kind, allow_abbrev=False)
    for name, question in QUESTIONS.items():
        meanings = "; ".join(f"{answer}: {meaning}" for answer, meaning in ANSWERS[name].items())
        parser.add_argument(f"--{name}", choices=ANSWERS[name], help=f"{question} {meanings}")
    names = [situation.name for situation in results.situations]
    parser.add_argument(
        "--task", nargs="+", choices=names, default=[], metavar="NAME", help=f"situations by name, in place of answers: {', '.join(names)}"
    )
    parser.add_argument("--no-critic", action="store_true", help="leave out algorithms that train a critic beside the policy")
    parser.add_argument("--top", type=_count, default=10, metavar="N", help="algorithms to show (10); 0: all")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected 0 or more, got {text!r}")
    return int(text)


def _asked(questions: Mapping[str, str]) -> dict[str, str]:
    """What a person answers; a number, the answer's name, or nothing."""
    answers = {}
    for name, question in questions.items():
        sys.stdout.write(f"\n{question}\n")
        choices = list(ANSWERS[name])
        for number, choice in enumerate(choices, 1):
            sys.stdout.write(f"  {number}  {ANSWERS[name][choice]}\n")
        if chosen := _choice(choices):
            answers[name] = chosen
    return answers


def _choice(choices: Sequence[str]) -> str | None:
    numbered = dict(zip(map(str, range(1, len(choices) + 1)), choices, strict=True))
    while True:
        try:
            said = input(f"1 to {len(choices)}, or Enter: ").strip()
        except EOFError:
            return None
        if not said:
            return None
        if said in choices or said in numbered:
            return numbered.get(said, said)
        sys.stdout.write(f"{said!r} is none of {', '.join([*numbered, *choices])}.\n")


def _print(results: Measured, situations: Sequence[Situation], answers: Mapping[str, str], ranks: Sequence[Rank], top: int) -> None:
    from rich.console import Console
    from rich.table import Column, Table

    console = Console()
    console.print()
    for situation in situations:
        agrees = f"agrees with {agreement(situation, answers)} of {len(answers)} answers; " if answers else ""
        about = f"{situation.text} ({agrees}{situation.model}, {situation.completions:,} completions)"
        console.print(f"[bold]{situation.name}[/bold]: {about}", highlight=False)
    table = Table(
        Column("algorithm", no_wrap=True), *(Column(title, justify="right") for title in ("share", "behind", "95 % interval", "rate")), ""
    )
    for rank in ranks[: top or None]:
        interval = f"{rank.behind - rank.half:+.2f} to {rank.behind + rank.half:+.2f}" if rank.behind else ""
        rates = " ".join(f"{rate:g}" for rate in sorted(set(rank.rates)))
        notes = [*["worse"] * rank.told_apart, *["critic"] * rank.critic]
        table.add_row(rank.algorithm, f"{rank.share:.2f}", f"{rank.behind:+.2f}", interval, rates, ", ".join(notes))
    console.print(table)
    alike, first = sum(not rank.told_apart for rank in ranks), ranks[0].algorithm
    lines = [f"{alike} of {len(ranks)} algorithms are not told apart from {first}, of {ranks[0].package}: lightrl explain {first}"]
    lines.append(f"To try it: lightrl fit --config FILE --model.algorithm {first}")
    if not any(situation.model == REAL for situation in situations):
        real = " ".join(situation.name for situation in results.situations if situation.model == REAL)
        lines.append(f"What {REAL} learnt by some of them: lightrl recommend --task {real}")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _as_json(rank: Rank) -> dict[str, Any]:
    return {**rank._asdict(), "told_apart": rank.told_apart}
