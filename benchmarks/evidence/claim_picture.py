"""The picture of the page of benchmarks/evidence/claims.py: the effect of each claim beside its threshold, and the ladder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from benchmarks.evidence.claim_ladder import Rung
from benchmarks.evidence.claim_list import Claim
from benchmarks.evidence.claim_verdict import Spread, Verdict, spread_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS = {"seen": ("#0072b2", "o", "#0072b2"), "not seen": ("#555555", "o", "white"), "opposite": ("#d55e00", "s", "#d55e00")}
"""Colour, mark and filling of each verdict; the marks differ without colours."""
PLAIN = ("black", "D", "black")
"""Of a rung that is compared with nothing."""
BAND = "#dddddd"
Row = tuple[str, str, Spread | None]
"""Name, word and numbers of a row."""


def draw(verdicts: Sequence[tuple[Claim, Verdict]], rungs: Sequence[Rung], picture: Path) -> Figure:
    """Draw the claims in their order and the rungs from the bottom of the ladder.

    Args:
        verdicts: of all claims.
        rungs: of the ladder.
        picture: file to write.
    """
    figure = Figure(figsize=(11, 1.8 + 0.34 * (len(verdicts) + len(rungs))), layout="constrained")
    claims, ladder = figure.subplots(2, 1, height_ratios=[len(verdicts) + 1, len(rungs)])
    _claims(claims, verdicts)
    _ladder(ladder, rungs)
    figure.savefig(picture, dpi=100)
    return figure


def _claims(axes: Axes, verdicts: Sequence[tuple[Claim, Verdict]]) -> None:
    for y, (claim, _) in enumerate(verdicts):
        if claim.expected == "factor":
            axes.plot([claim.factor - 1] * 2, [y - 0.35, y + 0.35], color="black", linewidth=1.2, label="the published factor")
        else:
            label = "below the threshold" if y == 0 else None
            axes.barh(y, 2 * claim.threshold, left=-claim.threshold, height=0.7, facecolor=BAND, edgecolor="#999999", zorder=0, label=label)
    _rows(axes, [(f"{claim.name}: {claim.effect}", found.word, found.spread) for claim, found in verdicts])
    axes.axvline(0, color="black", linewidth=0.8, zorder=1)
    axes.set_title("Effects of single mechanisms: mean over seeds with its 95 % interval", fontsize=10)
    axes.set_xlabel("effect in the published direction, as a share of the mean without the mechanism", fontsize=9)
    axes.legend(fontsize=8, loc="lower left")


def _ladder(axes: Axes, rungs: Sequence[Rung]) -> None:
    scores = [rung.measures["avg@32"] for rung in rungs]
    rows = [(rung.name, rung.verdict.word, spread_of(score) if score else None) for rung, score in zip(rungs, scores, strict=True)]
    _rows(axes, rows)
    axes.set_title("From GRPO to DAPO, rung by rung: mean over seeds with its 95 % interval", fontsize=10)
    axes.set_xlabel("avg@32 at the end; the word is the verdict beside the rung above", fontsize=9)


def _rows(axes: Axes, rows: Sequence[Row]) -> None:
    """One row each, from the top: its name, its mean and interval, and its word at the right."""
    for y, (_, word, spread) in enumerate(rows):
        colour, mark, filling = LOOKS.get(word, PLAIN)
        if spread is not None:
            axes.plot([spread.low, spread.high], [y, y], color=colour, linewidth=1.8)
            axes.plot(spread.mean, y, mark, color=colour, markerfacecolor=filling, markersize=7)
        axes.annotate(word, (1.01, y), xycoords=("axes fraction", "data"), color=colour, va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows], fontsize=9)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", alpha=0.3)
