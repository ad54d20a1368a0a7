"""The page and the picture of `make bench CASE=curves`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.evidence.curve_agreement import NARROW, Agreement
from benchmarks.evidence.curve_cases import (
    BETAS,
    DIGITS,
    EPS,
    HELD_OUT,
    MAX_GRAD_NORM,
    METHODS,
    NUMBERS,
    SEEDS,
    TITLES,
    Curves,
    Given,
    Online,
)

PAGE, PICTURE = ROOT / "docs" / "curves.md", ROOT / "docs" / "images" / "curves.png"
Found = Mapping[str, Mapping[str, list[Curves]]]
"""The curves of each method by side, one per seed; no side while a run is missing."""
Verdicts = Mapping[tuple[str, str], Agreement]
"""By method and number."""
GAMES = {
    "guess": ("GuessTheNumber, 1 to 20", "guesses per game", "start_guesses", "final_guesses", "binary_search"),
    "blackjack": ("Blackjack", "mean reward per hand", "start_reward", "final_reward", "value_iteration"),
    "frozenlake": ("FrozenLake, 4 x 4", "share of games that reach the goal", "start_reached", "final_reached", "value_iteration"),
}
"""By command: task, number, and its names in runs/COMMAND/summary.json at the start, at the end and at the optimum."""
SPLIT = (
    "One setting of GRPO is not the same: of the two optimizer steps of a rollout, lightrl gives each whole groups, and TRL single "
    "completions (`minibatch_of: rows` does that here). Further sides take it away:"
)
WITHOUT = {
    "grpo_whole_groups": "With whole groups on both sides",
    "grpo_one_step": "With one step per rollout",
}
"""The further sides, and what they change."""
COLUMNS = 4
"""Panels of the picture beside each other, so that the titles of all have room."""
REPLAYED = ("grpo_same_completions", "grad_norm")
"""The side that takes chance away."""


def write_page(found: Found, verdicts: Verdicts) -> Path:
    """Write both; the path of the page."""
    if verdicts:
        draw(found, verdicts)
    PAGE.write_text(page(verdicts, {name: game_row(name, ROOT / "runs" / name / "summary.json") for name in GAMES}))
    return PAGE


def page(verdicts: Verdicts, games: Mapping[str, str]) -> str:
    """docs/curves.md.

    Args:
        verdicts: of the methods whose runs are complete.
        games: the row of each task with a known optimum.
    """
    return PAGE_TEXT.format(
        first=first_words(verdicts), picture=PICTURE_TEXT if verdicts else "", seeds=SEEDS, narrow=f"{NARROW:.0%}",
        table=table(verdicts), digits=DIGITS, held_out=HELD_OUT, settings="\n".join(settings(method) for method in METHODS.values()),
        betas=BETAS, eps=EPS, norm=MAX_GRAD_NORM, games="\n".join(games.values()),
    )  # fmt: skip


def first_words(verdicts: Verdicts) -> str:
    """What did not hold, or that everything did."""
    words = {"different": "The interval does not contain 0", "too wide": "The interval is too wide to say"}
    said = [
        f"{words[word]} for: {', '.join(f'{TITLES[name]} ({number})' for (name, number), one in verdicts.items() if one.word == word)}."
        for word in words
        if any(one.word == word for one in verdicts.values())
    ]
    missing = [TITLES[name] for name in METHODS if not any(name == one for one, _ in verdicts)]
    said += [f"Not run: {'; '.join(missing)}."] if missing else []
    few = [
        TITLES[name]
        for name in METHODS
        if any(name == one and verdict.seeds < METHODS[name].seeds for (one, _), verdict in verdicts.items())
    ]
    said += [f"Fewer seeds than planned: {', '.join(few)}."] if few else []
    tested = {name: one for (name, _), one in verdicts.items() if name in WITHOUT}
    paragraphs = [" ".join(said)] if said else []
    if tested and any(name == "grpo" and one.word != "alike" for (name, _), one in verdicts.items()):
        paragraphs += [SPLIT, causes(verdicts[("grpo", "reward")], tested)]
    paragraphs += [same_steps(verdicts[REPLAYED])] if REPLAYED in verdicts else []
    return "\n\n".join(paragraphs) or "Every curve is alike."


def causes(first: Agreement, tested: Mapping[str, Agreement]) -> str:
    """A line for each further side, and what they say together.

    Args:
        first: GRPO as it is.
        tested: the further sides that have been run, by name.
    """
    lines = [
        f"- {WITHOUT[name]} the difference is {one.difference:+.2g} ({span(one)}, {one.seeds} seeds): {one.word}."
        for name, one in tested.items()
    ]
    gone = [WITHOUT[name] for name, one in tested.items() if one.word == "alike" and abs(one.difference - first.difference) > one.half]
    if gone:
        end = f"The first difference lies outside the interval {' and '.join(gone).lower()}, so that this setting is its cause."
    else:
        end = "The intervals contain the first difference too, so that this cause is not proved."
    return "\n".join([*lines, f"\n{end}"])


def same_steps(found: Agreement) -> str:
    """What comes of the same completions on both sides."""
    said = f"Where lightrl learns from the completions that TRL has sampled, the norms of the gradients differ by {found.difference:.1g}"
    # float32 rounds to 6e-8, and errors grow by a factor of ten in about eight rollouts
    alike = abs(found.difference) + found.half < 1e-4 * abs(found.peer)
    end = "the steps of both are the same" if alike else "the steps of both differ too"
    return f"{said} ({span(found)}) of {found.peer:.2f}: {end}."


def table(verdicts: Verdicts) -> str:
    """The verdicts, those that did not hold first."""
    order = ("different", "too wide", "alike")
    return "\n".join(
        f"| **{one.word}** | {TITLES[name]} | {NUMBERS[name][number]} | {one.own:.4f} | {one.peer:.4f} | {one.difference:+.2g} "
        f"({span(one)}) | {200 * one.half / abs(one.peer):.2g} % | {one.seeds} |"
        for (name, number), one in sorted(verdicts.items(), key=lambda pair: order.index(pair[1].word))
    )


def span(one: Agreement) -> str:
    """The 95 % interval."""
    return f"{one.difference - one.half:+.2g} to {one.difference + one.half:+.2g}"


def settings(method: Online | Given) -> str:
    """A line of the page: what a method was told on both sides."""
    if isinstance(method, Online):
        steps = "one optimizer step" if method.steps == 1 else f"{method.steps} optimizer steps"
        clip = f", each on a part of the completions, with a clip of {method.clip}" if method.steps > 1 else ", so that no clip can act"
        clip += " and whole groups in each part on both sides" if method.whole_groups else ""
        clip += ", and with the completions of TRL on both sides" if method.replayed else ""
        told = f"{method.rollouts} rollouts of {method.prompts} prompts with {method.group} completions, {steps} per rollout{clip}; no KL"
    else:
        told = f"{method.steps} optimizer steps on {method.batch} prompts each, evaluated every {method.every} steps"
        told += f"; beta {method.beta}" if method.name == "dpo" else ""
    return f"- {TITLES[method.name]}: {told}; learning rate {method.rate:g}."


def game_row(name: str, summary: Path) -> str:
    """A task with a known optimum in the table.

    Args:
        name: of `GAMES`.
        summary: what its command has written last, if it has run here.
    """
    task, number, *keys = GAMES[name]
    if not summary.exists():
        return f"| {task} | {number} | not run | not run | - | `make {name}` |"
    found: dict[str, Any] = json.loads(summary.read_text())
    start, end, best = (f"{found[key]:.3f}" for key in keys)
    return f"| {task} | {number} | {start} | {end} | {best} | `make {name}`, seed {found['seed']} |"


def draw(found: Found, verdicts: Verdicts) -> None:
    """One panel per number: the mean over seeds of both sides, with their least and largest value."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = -(-len(verdicts) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(13, 3 * rows), layout="constrained", squeeze=False)
    for spare in axes.flat[len(verdicts) :]:
        spare.axis("off")
    for panel, (name, number) in zip(axes.flat, verdicts, strict=False):
        for side, colour, style in (("trl", "tab:orange", "-"), ("lightrl", "tab:blue", "--")):
            runs = [curves[number] for curves in found[name][side]]
            x = [point[0] for point in runs[0]]
            values = list(zip(*([y for _, y in run] for run in runs), strict=True))
            panel.fill_between(x, [min(v) for v in values], [max(v) for v in values], color=colour, alpha=0.15, linewidth=0)
            panel.plot(x, [statistics.mean(v) for v in values], style, color=colour, label={"trl": "TRL"}.get(side, side))
        seen = "completions" if isinstance(METHODS[name], Online) else "prompts"
        panel.set_title(TITLES[name], fontsize="medium")
        panel.set(xlabel=f"{seen} seen", ylabel=NUMBERS[name][number])
        panel.grid(alpha=0.3)
    axes.flat[0].legend()
    figure.savefig(PICTURE, dpi=100)
    plt.close(figure)


PICTURE_TEXT = """
![Curves of both sides](images/curves.png)

The line is the mean over seeds, the band reaches from the least to the largest.
"""
PAGE_TEXT = """\
# Curves beside a peer

`make bench CASE=curves` trains with lightrl and with TRL 1.16.0 from the same start on the same data, with {seeds} seeds each or more,
and writes this page. It goes on where it was stopped; `make bench CASE=curves ARGS=--plan` prints what it would do.

{first}
{picture}
A number of a run is the area under its curve, divided by
the curve's width. Two sides are alike if the 95 % interval of the paired difference over seeds (Student's t) contains 0 and is narrower
than {narrow} of TRL's mean.

| verdict | method | curve | lightrl | TRL | difference, 95 % interval | width beside TRL | seeds |
|---|---|---|---|---|---|---|---|
{table}

## What is the same

All methods of a seed start from one policy of 133K parameters, which has been taught until it sorts {digits} digits rightly three times in
ten. The rows are in one file, and both sides read them in its order, each once. Held-out numbers are of {held_out} other prompts. Both
sides compute in float32 on the CPU, with AdamW (betas {betas}, epsilon {eps:g}, no weight decay), a constant learning rate, and gradients
scaled down to a norm of {norm:g}. Completions are sampled at temperature 1 from all tokens, at most 8 of them; reward 1 is an exact match,
but for white space around it.

{settings}

Defaults that were changed to be the same: TRL's GRPO has `loss_type: bnpo`, the mean over the tokens of the optimizer step, in place of
`dapo`, which divides by those of the rollout; its RLOO has no KL; lightrl adds 1e-4 to the deviation of a group, as TRL does. The reward
model of both sides has one head, drawn once per seed.

What differs: the random numbers that sample completions. So GRPO and RLOO differ from the first rollout on. The other methods sample
nothing, and their curves part only as rounding errors grow.

## Tasks whose optimum is known

This is what each command wrote when it last ran in this checkout. [Three games](environments.md#three-games) says what is played, and has
the numbers of runs made before.

| task | number | start | after training | optimum | command |
|---|---|---|---|---|---|
{games}
"""
