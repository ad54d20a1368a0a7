"""The tables that `lightrl replay` prints."""

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from lightrl.callbacks.shown_text import in_quotes, visible
from lightrl_runs.records.record import rows_of
from lightrl_runs.replay.chosen_record import Chosen
from lightrl_runs.replay.measures import CLOSE, Agreement, agreement, by_group, by_length, disagreements, share_of_tokens, weights_of_rows
from lightrl_runs.replay.outcome import cosine
from lightrl_runs.replay.replayed_config import Replayed

NUMBERS = (
    "optimizer_steps", "policy_loss", "kl_loss", "clip_ratio/low", "clip_ratio/high", "clip_ratio/region", "ratio/mean", "ratio/max",
    "approx_kl", "advantages/mean", "advantages/std", "grad_norm",
)  # fmt: skip
"""Logged numbers of the table, as far as one of the algorithms has them."""
MOST_GROUPS = 6
MOST_DIFFERING = 12
MOST_TEXT = 600
"""Characters of a completion."""


def print_outcome(chosen: Chosen, mine: Replayed) -> bool:
    """Print the record, and whether the run's numbers were found again; True if nothing differs."""
    console, notes = Console(soft_wrap=True, highlight=False), chosen.records[0].notes
    ranks = f", {notes.ranks} ranks" if notes.ranks > 1 else ""
    rows = rows_of(chosen.records)
    prompts, tokens = len(set(rows.group.tolist())), int(rows.response_mask.sum())
    console.print(
        f"Rollout {notes.rollout} in {chosen.folder}: {len(rows):,} completions of {prompts:,} prompts, {tokens:,} sampled tokens; "
        f"{notes.algorithm}, {notes.engine.name}{ranks}",
        markup=False,
    )
    if chosen.checkpoint is None:
        console.print(
            f"Without weights ({chosen.no_weights}): the replay ends before the first step. Gradients are those of the tokens' log-probs, "
            "and every ratio is that of the weights before the first step.",
            markup=False,
        )
    else:
        console.print(f"Weights: {chosen.checkpoint}", markup=False)
    _print_notes(console, mine)
    found = agreement(chosen.records, mine.outcome, mine.processes, chosen.checkpoint is not None)
    _print_agreement(console, found)
    if mine.processes == 1:
        console.print(_measures([mine]))
        for table in _weights([mine]):
            console.print(table)
    return found.holds


def print_comparison(mine: Replayed, other: Replayed, rows: int) -> None:
    """Print two algorithms side by side, and as many of the rows on which they disagree most."""
    console, both = Console(soft_wrap=True, highlight=False), [mine, other]
    console.print(Text(f"\n{mine.name} and {other.name} on the same rows", style="bold"))
    _print_notes(console, other)
    console.print(_measures(both))
    for table in _weights(both):
        console.print(table)
    _print_rows(console, both, rows)


def _print_notes(console: Console, replayed: Replayed) -> None:
    for sentence in replayed.outcome.left_out:
        console.print(f"{replayed.name}: {sentence}.", markup=False)
    if replayed.fresh:
        slots = ", ".join(replayed.fresh)
        console.print(
            f"{replayed.name}: what these parts may remember of earlier rollouts is not there, and they begin anew: {slots}.", markup=False
        )


def _print_agreement(console: Console, found: Agreement) -> None:
    if found.holds:
        console.print(_found_again(found), markup=False)
        return
    console.print(Text(f"Not found again. The first difference: {found.first}.", style="bold"))
    table = Table("number", "run", "replay", title="numbers that differ", title_justify="left")
    for name, (run, replay) in list(found.differing.items())[:MOST_DIFFERING]:
        table.add_row(name, repr(run), repr(replay))
    if found.differing:
        console.print(table)
    if (more := len(found.differing) - MOST_DIFFERING) > 0:
        console.print(f"... and {more} more.")


def _found_again(found: Agreement) -> str:
    if found.steps and found.exact:
        return f"Found again: all {found.compared} numbers that the run logged of learning are the same, to the bit."
    if found.steps:
        rounding = f"up to {CLOSE:g}, since one process replays what several have learnt"
        return f"Found again: all {found.compared} numbers that the run logged of learning are the same {rounding}."
    if found.exact:
        return "Found again: rewards, token weights and advantages are the run's, to the bit."
    return "Nothing was compared: without weights, the rows of several ranks are not compared with the run."


def _measures(replays: Sequence[Replayed]) -> Table:
    table = Table("what", *(replayed.name for replayed in replays), title="losses, clips and gradients", title_justify="left")
    outcomes = [replayed.outcome for replayed in replays]
    for name in NUMBERS:
        if any(name in outcome.numbers for outcome in outcomes):
            table.add_row(name, *(_number(outcome.numbers.get(name)) for outcome in outcomes))
    table.add_row("tokens with a gradient", *(_percent(share_of_tokens(outcome)) for outcome in outcomes))
    rows = [float((weights_of_rows(outcome) > 0).double().mean()) for outcome in outcomes]
    table.add_row("rows with a gradient", *map(_percent, rows))
    for title, part in (("gradient of the first step", "first"), ("gradients of all steps added up", "total")):
        vectors = [getattr(outcome.gradients, part) for outcome in outcomes]
        table.add_row(f"norm: {title}", *(_number(None if v is None else float(v.double().norm())) for v in vectors))
        if len(vectors) == 2:
            table.add_row(f"cosine: {title}", "", _cosine(*vectors))
    return table


def _cosine(one: Tensor | None, other: Tensor | None) -> str:
    return "no gradient" if one is None or other is None or not one.any() or not other.any() else f"{cosine(one, other):.12f}"


def _weights(replays: Sequence[Replayed]) -> list[Table]:
    outcomes, names = [replayed.outcome for replayed in replays], [replayed.name for replayed in replays]
    said = "share of the effective weight, |d loss / d log-prob|"
    lengths = Table("length", "rows", *names, title=f"{said}, by length", title_justify="left")
    for share in by_length(outcomes):
        lengths.add_row(share.name, str(share.rows), *map(_percent, share.shares))
    which = "the largest" if len(replays) == 1 else "where the two differ most"
    groups = Table("prompt", "rows", *names, title=f"{said}, by group: {which}", title_justify="left")
    for share in by_group(outcomes, MOST_GROUPS):
        groups.add_row(Text(visible(share.name)), str(share.rows), *map(_percent, share.shares))
    return [lengths, groups]


def _print_rows(console: Console, replays: Sequence[Replayed], most: int) -> None:
    mine, other = replays
    batch = mine.outcome.batch
    found = disagreements(mine.outcome, other.outcome, most)
    if found:
        console.print(Text("\nRows on which they disagree most (above 0: made likelier; below 0: less likely)", style="bold"))
    for one in found:
        row, reward = one.row, float(batch.rewards[one.row])
        pulls = ", ".join(f"{replayed.name} {100 * pull:+.2f} %" for replayed, pull in zip(replays, one.pulls, strict=True))
        text = in_quotes(batch.completions[row])
        cut = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}... ({len(batch.completions[row])} characters)"
        told = f"reward {reward:g}, {int(batch.response_lengths[row])} tokens, {batch.finish_reason[row]}"
        console.print(f"row {row}, prompt {visible(batch.prompts[row].id)}: {pulls}; {told}\n    {cut}", markup=False)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f} %"
