"""The comparison as a table of 80 columns: one row per algorithm, short codes in the cells, and below them what each code stands for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightrl.cli.catalogue.comparison import QUESTIONS, Facts

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

LINES = 2
"""As many lines a row has at most where a column of sentences is added."""


def _initials(answer: str) -> str:
    """`policy, value head` is PV."""
    return "".join(word[0] for word in answer.split(", ")).upper()


def _capitals(answer: str) -> str:
    """Those of the first class that is named: of `per token, SymmetricClip(epsilon=0.2)` they are SC."""
    named = re.search(r"\b[A-Z]\w+", answer)
    return "".join(c for c in named[0] if c.isupper() or c.isdigit()) if named else answer.split()[0]


def _kl(answer: str) -> str:
    """Estimator, coefficient and place; with a * where more is to be said."""
    plain = re.fullmatch(r"(\w+) to the reference, (\S+) in the (loss|reward)", answer)
    return "-" if answer == "none" else f"{plain[1]} {plain[2]} {plain[3][0].upper()}" if plain else f"{answer.split()[0]} *"


def _without_signal(answer: str) -> str:
    """The word that tells it from the others."""
    if answer == "no gradient":
        return "none"
    told = re.fullmatch(r"sampler: (\w+)|gradient from (\w+).* alone", answer)
    return (told[1] or told[2]) if told else "past" if answer.startswith("against earlier") else "usual"


@dataclass(frozen=True)
class Column:
    """A column of codes."""

    heading: str
    """Above it."""
    code: Callable[[str], str]
    """Of an answer."""
    note: str = ""
    """How to read the codes; empty: each is listed with its answer."""


COLUMNS = {
    "models": Column("mem", _initials, "P policy, V value head, C critic, R reference, T teacher"),
    "completions": Column("n", str, "drawn by the sampler"),
    "advantage": Column("adv", _capitals),
    "level": Column("per", lambda answer: answer[:1], "c completion, t token"),
    "kl": Column("KL", _kl, "estimator, coefficient, L in the loss or R in the reward; - none"),
    "clip": Column("clip", _capitals),
    "aggregation": Column("agg", _capitals),
    "without_signal": Column(
        "equal",
        _without_signal,
        "none no gradient, KL from the KL alone, past against earlier rollouts of the prompt, usual as any other group; "
        "else what the sampler does with them",
    ),
}
"""By field of `Facts`. The length bias stands with the aggregation, which causes it."""


def codes(name: str, answers: Sequence[str]) -> dict[str, str]:
    """By answer, a short code; where two answers would have the same, the later ones get b, c, ... behind it.

    Args:
        name: field of `Facts`.
        answers: those of all algorithms, in their order.
    """
    column, given = COLUMNS[name], dict[str, str]()
    for answer in answers:
        if answer not in given:
            code = column.code(answer)
            same = sum(column.code(other) == code for other in given)
            given[answer] = code + ("abcdefghijklmnopqrstuvwxyz"[same] if same and not column.note else "")
    return given


def differing(facts: Sequence[Facts]) -> list[str]:
    """The columns in which the algorithms differ; all of them for one algorithm."""
    return [name for name in COLUMNS if len(facts) == 1 or len({getattr(f, name) for f in facts}) > 1]


def print_comparison(facts: Sequence[Facts], console: Console) -> None:
    """Print the table, what is the same for all, and the legend."""
    shown = differing(facts)
    answers = {name: [str(getattr(f, name)) for f in facts] for name in shown}
    coded = {name: codes(name, answers[name]) for name in shown}
    rows = [[f.algorithm, *(coded[name][getattr(f, name)] for name in shown)] for f in facts]
    headings = ["algorithm", *(COLUMNS[name].heading for name in shown)]
    taken = sum(max(len(row[i]) for row in [headings, *rows]) + 2 for i in range(len(headings)))
    sentences = [f.best_for for f in facts]
    if max(map(len, sentences)) <= (console.width - taken - 10) * LINES:
        headings, rows = [*headings, QUESTIONS["best_for"]], [[*row, said] for row, said in zip(rows, sentences, strict=True)]
    console.print(_table(headings, rows))
    if same := [f"{QUESTIONS[name]}: {getattr(facts[0], name)}" for name in COLUMNS if name not in shown]:
        console.print(f"\nThe same for all: {'; '.join(same)}.")
    console.print("\nThe columns:")
    biases = {f.aggregation: f"{f.aggregation}; length bias: {f.length_bias}" for f in facts}
    console.print(_legend({name: {biases.get(answer, answer): code for answer, code in coded[name].items()} for name in shown}))


def _legend(coded: dict[str, dict[str, str]]) -> Table:
    """Of each column what it is, and what its codes stand for."""
    from rich.table import Table

    lines = Table(box=None, padding=(0, 1), pad_edge=False, show_header=False)
    lines.add_column(no_wrap=True)
    lines.add_column(overflow="fold")
    for name, codes_of in coded.items():
        column = COLUMNS[name]
        lines.add_row(column.heading, f"{QUESTIONS[name]}{': ' if column.note else ''}{column.note}")
        for answer, code in codes_of.items():
            if not column.note or code.endswith("*"):
                lines.add_row(f"  {code}", answer)
    return lines


def _table(headings: list[str], rows: list[list[str]]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for i, heading in enumerate(headings):
        table.add_column(heading, no_wrap=0 < i <= len(COLUMNS) and heading != QUESTIONS["best_for"], overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
