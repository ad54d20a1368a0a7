"""Numbers that are reported of scores and of the comparisons between them."""

from __future__ import annotations

import math

from torch import Tensor

from lightrl.ops.comparison import confidence, confidence_bin, right_order
from lightrl.training.offline.rankings import Comparisons
from lightrl.training.reports.statistics import Reporting, StatisticsLedger

BINS = 10
"""Equal parts of [1/2, 1] in which confidence is compared with accuracy."""

_SQUARE = "score/square"


def report_scores(ledger: Reporting, scores: Tensor) -> None:
    """The mean of `[R]` scores, and of their squares, of which `finished` makes the standard deviation."""
    ledger.add("score/mean", scores)
    ledger.add(_SQUARE, scores.detach().double().square())


def report_comparisons(ledger: Reporting, scores: Tensor, compared: Comparisons) -> None:
    """`accuracy`, the share of comparisons whose better completion has the higher score (a tie is half), and `margin`, its mean lead."""
    difference = _difference(scores, compared)
    ledger.add("accuracy", right_order(difference))
    ledger.add("margin", difference)


def report_calibration(ledger: StatisticsLedger, scores: Tensor, compared: Comparisons) -> None:
    """The share of right comparisons among those of about the same confidence, by bins of the confidence.

    The confidence of a comparison is sigmoid(|r_1 - r_2|), the probability of the completion with the higher score.
    """
    difference = _difference(scores, compared)
    right, sure, part = right_order(difference), confidence(difference), confidence_bin(difference, BINS)
    for number in range(BINS):
        inside = part == number
        ledger.add(f"{_bin(number)}/share", inside.double())
        ledger.add(f"{_bin(number)}/accuracy", right[inside])
        ledger.add(f"{_bin(number)}/confidence", sure[inside])


def finished(numbers: dict[str, float]) -> dict[str, float]:
    """Reduced numbers with those that follow from them: `score/std`, and with bins `calibration/error`.

    error = sum over bins of share |accuracy - confidence|, the expected calibration error.

    Source: Naeini et al. 2015 (expected calibration error); Guo et al. 2017, arXiv:1706.04599, eq. 3.
    """
    done = dict(numbers)
    if _SQUARE in done:
        done["score/std"] = math.sqrt(max(0.0, done.pop(_SQUARE) - done["score/mean"] ** 2))
    filled = [name for name in map(_bin, range(BINS)) if f"{name}/accuracy" in done]
    if filled:
        gaps = (done[f"{name}/share"] * abs(done[f"{name}/accuracy"] - done[f"{name}/confidence"]) for name in filled)
        done["calibration/error"] = sum(gaps)
    return done


def _difference(scores: Tensor, compared: Comparisons) -> Tensor:
    found = scores.detach().double()
    return found[compared.better] - found[compared.worse]


def _bin(number: int) -> str:
    return f"calibration/{0.5 + 0.5 * number / BINS:.2f}-{0.5 + 0.5 * (number + 1) / BINS:.2f}"
