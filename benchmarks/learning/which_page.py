"""The page of benchmarks/learning/which.py, its picture, and the results that `lightrl recommend` reads."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightrl_recommend import Measured, Rank, Row, Situation, ranking
from lightrl_recommend.measured import QUESTIONS, read
from lightrl_recommend.ranking import mean_and_half
from matplotlib.figure import Figure

from benchmarks import ROOT
from benchmarks.learning import chat_algorithms, chat_plan
from benchmarks.learning.chat_cells import PROMPTS, ROLLOUTS
from benchmarks.learning.chat_page import RESULTS as CHAT_RESULTS
from benchmarks.learning.which_algorithms import ALGORITHMS, Given
from benchmarks.learning.which_run import AT_ONCE
from benchmarks.learning.which_tasks import TASKS

MEASURED = ROOT / "plugins" / "lightrl-recommend" / "lightrl_recommend" / "measured.json"
PAGE = ROOT / "docs" / "which_algorithm.md"
PICTURE = ROOT / "docs" / "images" / "which_algorithm.png"
CHAT = "SmolLM2-135M-Instruct"
CHAT_TASKS = {
    "sums": ("sums of two digits", {"reward": "exact", "start": "often", "turns": "one", "steps": "few"}),
    "products": ("products of two digits, of reasoning-gym", {"reward": "exact", "start": "often", "turns": "one", "steps": "few"}),
    "calculator": ("sums of two numbers, with a tool that adds", {"reward": "exact", "start": "often", "turns": "several", "steps": "few"}),
}
"""Of the runs of benchmarks/learning/chat_models.py."""
BEST = 5
"""Algorithms that the page names in a situation."""


def write_page(rows: Sequence[dict[str, Any]], file: Path = MEASURED, page: Path = PAGE, picture: Path = PICTURE) -> None:
    """Write the results, the page and its picture.

    Args:
        rows: of the small tasks, each with `task`, `algorithm`, `rate`, and `before` and `after` by seed.
        file: of results.
        page: file to write.
        picture: likewise.
    """
    there = {row["task"] for row in rows}
    situations = [
        {"name": name, "text": task.situation, "model": "tiny policy", "completions": task.rollouts * AT_ONCE, "answers": task.answers}
        for name, task in ((name, make()) for name, make in TASKS.items() if name in there)
    ]
    chat = [
        {"name": name, "text": text, "model": CHAT, "completions": PROMPTS * ROLLOUTS * chat_algorithms.GROUP, "answers": answers}
        for name, (text, answers) in CHAT_TASKS.items()
    ]
    content = {"situations": situations + chat, "rows": [{**row, **_origin(row["algorithm"])} for row in [*rows, *_chat_rows()]]}
    lines = [f'  "{name}": [\n    ' + ",\n    ".join(json.dumps(each) for each in content[name]) + "\n  ]" for name in content]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    results = read(content)
    draw(results, picture)
    page.write_text(text(results))
    print(f"{len(rows)} of {len(TASKS) * len(ALGORITHMS)} rows are there. Written: {page}, {picture} and {file}")  # noqa: T201


def _origin(algorithm: str) -> dict[str, Any]:
    made = ALGORITHMS[algorithm](Given(8, "right", {}))
    return {"package": type(made).__module__.partition(".")[0].replace("_", "-"), "critic": made.critic is not None}


def _chat_rows() -> list[dict[str, Any]]:
    """The runs of the chat model that are there with every seed."""
    cells, classes = chat_plan.results(CHAT_RESULTS), {name: type(make(8)).__name__ for name, make in chat_algorithms.ALGORITHMS.items()}
    rows = []
    for task in CHAT_TASKS:
        for name, cls in classes.items():
            found = [cells[run] for seed in chat_plan.SEEDS if (run := chat_plan.Run(task, name, seed)) in cells]
            if len(found) == len(chat_plan.SEEDS):
                scores = {which: [cell[which] for cell in found] for which in ("before", "after")}
                rows.append({"task": task, "algorithm": cls, "rate": chat_algorithms.LEARNING_RATE, **scores})
    return rows


def of_model(results: Measured, real: bool) -> list[Situation]:
    """The situations of the tiny policies, or of the chat model."""
    return [situation for situation in results.situations if (situation.model == CHAT) is real]


def text(results: Measured) -> str:
    """docs/which_algorithm.md.

    Args:
        results: of every row that is there.
    """
    small, real = of_model(results, False), of_model(results, True)
    return PAGE_TEXT.format(
        count=len({row.algorithm for row in results.rows}), tasks=len(small), seeds=len(results.rows[0].before),
        situations="\n".join(f"| `{each.name}` | {each.text} | {each.completions:,} | {_answers(each)} |" for each in small),
        table=table(results, small), chat_table=table(results, real), rank_lists="\n".join(named(results, each) for each in small),
        together=told(ranking(results, small)),
    )  # fmt: skip


def _answers(situation: Situation) -> str:
    return ", ".join(situation.answers.get(question, "any") for question in QUESTIONS)


def table(results: Measured, situations: Sequence[Situation]) -> str:
    """A Markdown table: an algorithm a row, its share in each situation and over all of them.

    Args:
        results: all of them.
        situations: the columns.
    """
    ranks = {situation.name: {rank.algorithm: rank for rank in ranking(results, [situation])} for situation in situations}
    rows = {(row.task, row.algorithm): row for row in results.rows}
    overall = ranking(results, situations)
    lines = [
        "| algorithm | package | all | " + " | ".join(f"{situation.name}" for situation in situations) + " |",
        "|---|---|---|" + "---|" * len(situations),
    ]
    for rank in overall:
        cells = [_cell(rows[each.name, rank.algorithm], ranks[each.name][rank.algorithm]) for each in situations]
        mean = f"{rank.share:.3f}" if rank.told_apart else f"**{rank.share:.3f}**"
        critic = " (critic)" if rank.critic else ""
        lines.append(f"| {rank.algorithm}{critic} | {rank.package} | {mean} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: Row, rank: Rank) -> str:
    mean, half = mean_and_half(row.shares)
    shown = f"{mean:.2f} ± {half:.2f}"
    return shown if rank.told_apart else f"**{shown}**"


def named(results: Measured, situation: Situation) -> str:
    """The first algorithms of a situation, and how many are not told apart from the first."""
    ranks = ranking(results, [situation])
    return f"* `{situation.name}`: {', '.join(f'{rank.algorithm} {rank.share:.2f}' for rank in ranks[:BEST])}. {told(ranks)}"


def told(ranks: Sequence[Rank]) -> str:
    """How many algorithms are not told apart from the first."""
    return f"{sum(not rank.told_apart for rank in ranks)} of {len(ranks)} are not told apart from {ranks[0].algorithm}."


def draw(results: Measured, picture: Path) -> Figure:
    """A square for each algorithm and situation, coloured by the share of the way.

    Args:
        results: all of them.
        picture: file to write.
    """
    small = of_model(results, False)
    overall = ranking(results, small)
    rows = {(row.task, row.algorithm): statistics.mean(row.shares) for row in results.rows}
    shares = [[rows[each.name, rank.algorithm] for each in small] for rank in overall]
    figure = Figure(figsize=(7.5, 0.27 * len(overall) + 1.2), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="viridis", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(small)), [each.name for each in small], fontsize=9)
    axes.set_yticks(range(len(overall)), [rank.algorithm for rank in overall], fontsize=8)
    axes.xaxis.tick_top()
    for y, values in enumerate(shares):
        for x, value in enumerate(values):
            axes.text(x, y, f"{value:.2f}", ha="center", va="center", fontsize=7, color="black" if value > 0.6 else "white")
    figure.colorbar(image, ax=axes, label="share of the way to the best score", shrink=0.5)
    figure.savefig(picture, dpi=100)
    return figure


PAGE_TEXT = """\
# Which algorithm, when

```bash
lightrl recommend              # asks four questions, and answers from this page's runs
lightrl recommend --reward judge --start often --turns one --steps few
make learn TASK=which          # makes the runs, and writes this page
```

This page also needs `lightrl-recommend`.

{count} online algorithms learn {tasks} small tasks whose best score is known, with {seeds} seeds each and **equally many completions**. A
completion that an algorithm draws and throws away, or draws only to compare with, counts. A number is the share of the way from the
start to the best possible score: 0 is where the policy began, 1 the best that there is. Scores are those of prompts that no run has
learnt from.

Over all of the small tasks, {together}
A table of this size always has a first row. So look at what is **bold**, which is not told apart from the first of its column: the 95 %
interval of the paired difference over seeds holds 0. It is not corrected for the number of rows. Choose among those by what else they
cost: `lightrl explain NAME` says what each is, and [Choosing an algorithm](algorithms.md) what sets them apart.

![Share of the way to the best score, by algorithm and task](images/which_algorithm.png)

## The situations

| name | what it is like | completions | reward, start, turns, steps |
|---|---|---|---|
{situations}

The policy has two layers of width 32, and each letter is a token to it. It has been taught what the answers are, and then to give them
only now and then: as a language model that knows more than it says. AdamW has no schedule. A rollout has 64 completions, in groups of 8
where an algorithm compares them, and two optimizer steps but for `reuse`. Each algorithm has the better of two learning rates on each
task, 0.001 and 0.002, and half of them for `reuse`: the score of a seed is that of the rate which is better with the other seeds. No
algorithm has a KL term against its start. Other arguments are its package's defaults, and those of
`benchmarks/learning/which_algorithms.py`. With several steps from a rollout GPG, ExpertIteration and OnlineDPO have no bound on how far
they move. Algorithms with a teacher are not here, nor is GSPOToken, which is GSPO where a completion has one advantage.

## First in each situation

{rank_lists}

## Every algorithm

On the site a click on the title of a column sorts by it; `lightrl recommend --task often --top 0` does so in a terminal. ± is half of the
95 % interval of the mean over seeds. "(critic)" has a second model to train.

{table}

## A chat model

The runs of [What a pretrained chat model learns](chat_models.md): SmolLM2-135M-Instruct, three seeds, one learning rate for all. DAPO draws
two to three times as many completions there.

{chat_table}

## What this does not say

Algorithms without groups, such as ReinforcePlusPlus, REINFORCE and PPO, see 64 different prompts in a rollout, and those with groups of
eight see 8: with equally many completions that is a part of what they are, and a part of why they are ahead here.

These are small tasks with small policies and short runs. What is first here by an interval is a good first try in a situation of the
kind, and no law: length, entropy over thousands of steps, and stale rollouts of large models are not in it.
"""
