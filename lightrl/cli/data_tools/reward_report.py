"""The answer of `lightrl reward test`: a table of the rewards, and the rows that a person should look at."""

from __future__ import annotations

import math
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from lightrl.callbacks.shown_text import in_quotes, prompt_text
from lightrl.data.completion_file import CompletionFile
from lightrl.rewards.components import shares
from lightrl.rewards.given_completions import Findings
from lightrl.rewards.outliers import Labels, from_labels, from_others, largest_outliers
from lightrl.rewards.reward_set import RewardSet
from lightrl.types import Outcome

MISSING = {"error": Outcome.ERROR, "timeout": Outcome.TIMEOUT, "abstained": Outcome.ABSTAINED, "gated": Outcome.GATED}
"""The outcomes of a row that has no score."""
PROMPT, COMPLETION = 160, 240
"""Characters of an outlier's prompt, from its start, and of its completion, up to its end."""


class Report:
    """The findings of all rows, in numbers and in print."""

    def __init__(
        self,
        rewards: RewardSet,
        file: CompletionFile,
        findings: Findings,
        expected: tuple[str | None, str, list[float | None]] | None,
        top: int,
    ) -> None:
        """`expected`: the reward that labels are for (None: the total), their column, and the label of each row of the file."""
        self._rewards, self._file, self._findings = rewards, file, findings
        self._total = findings.total
        self.labels = None if expected is None else _labels(findings, self._total, expected)
        self._label_of = "" if expected is None else f"{expected[1]!r} for {'the total' if expected[0] is None else repr(expected[0])}"
        self._deviation = from_others(self._total, findings.group) if self.labels is None else from_labels(self.labels)
        self._top = largest_outliers(self._deviation, findings.contributions, top)

    @property
    def contradicted(self) -> bool:
        """A label has another score, or none; without labels: no row has a total."""
        return bool(self._total.isnan().all() if self.labels is None else self.labels.disagreeing.any() or self.labels.unanswered)

    def as_json(self) -> dict[str, Any]:
        """Everything as one JSON value; null where there is no number."""
        file, labels = self._file, self.labels
        fields = {"prompt": file.template or file.prompt_field, "completion": file.completion, "answer": file.answer}
        compared = labels and {
            "compared": int(labels.compared.sum()),
            "disagreeing": int(labels.disagreeing.sum()),
            "without_score": labels.unanswered,
            "correlation": number(labels.correlation),
        }
        return {
            "file": file.path,
            "rows": len(self._findings.rows),
            "prompts": len(torch.unique(self._findings.group)),
            "fields": fields,
            "rewards": {name: self._of_reward(name) for name in self._findings.raw},
            "total": {**_spread(self._total), "unscorable": int((~self._findings.scorable).sum())},
            "error_budget": self._rewards.spent(),
            "expect": compared,
            "outliers": [self._of_row(i) for i in self._top],
        }

    def print(self) -> None:
        """Print it for a person."""
        console = Console(markup=False, highlight=False, soft_wrap=True)
        found = self.as_json()
        fields = ", ".join(f"{what}: {column or 'none'}" for what, column in found["fields"].items())
        console.print(f"{found['rows']:,} completions of {found['prompts']:,} prompts in {found['file']} ({fields})\n")
        console.print(self._table(found))
        for line in self._notes(found):
            console.print(line)
        console.print(f"\n{self._heading()}")
        for row in found["outliers"]:
            console.print(self._block(row))

    def _of_reward(self, name: str) -> dict[str, Any]:
        found = self._findings
        share = shares(found.contributions, found.group, found.scorable)[name]
        failures = (f"row {row + 1}: {why}" for row, why in zip(found.rows, found.failures[name], strict=True) if why)
        outcomes = {what: int((found.outcomes[name] == int(kind)).sum()) for what, kind in MISSING.items()}
        return {
            "class": type(self._rewards.rewards[name]).__name__,
            "weight": self._rewards.weights[name],
            **_spread(found.raw[name]),
            "contribution": number(found.contributions[name].nanmean()),
            "share": number(share),
            **outcomes,
            "cached": found.cached[name],
            "seconds": round(found.seconds[name], 3),
            "ms_per_row": round(1000 * found.seconds[name] / len(found.rows), 3),
            "first_failure": next(failures, None),
            "counts": found.counts[name],
        }

    def _of_row(self, i: int) -> dict[str, Any]:
        found, row = self._findings, self._findings.rows[i]
        said = {
            name: number(raw[i]) if found.outcomes[name][i] == int(Outcome.VALUE) else Outcome(int(found.outcomes[name][i])).name.lower()
            for name, raw in found.raw.items()
        }
        return {
            "row": row + 1,
            "deviation": number(self._deviation[i]),
            "expected": None if self.labels is None else number(self.labels.expected[i]),
            "total": number(self._total[i]),
            "rewards": said,
            "contributions": {name: number(brought[i]) for name, brought in found.contributions.items()},
            "prompt": prompt_text(self._file.prompt(row)),
            "answer": self._file.prompt(row).answer,
            "completion": self._file.completions[row],
        }

    def _table(self, found: dict[str, Any]) -> Table:
        numbers = ("weight", "mean", "std", "min", "max", "share")
        gone = [what for what in MISSING if any(one[what] for one in found["rewards"].values())]
        table = Table("reward", box=None, pad_edge=False, header_style="bold")
        for head in (*numbers, *gone, "seconds", "ms/row"):
            table.add_column(head, justify="right", no_wrap=True)
        for name, one in found["rewards"].items():
            cells = [*(f"{_short(one[what])}" for what in numbers), *(f"{one[what]:,}" for what in gone)]
            table.add_row(name, *cells, f"{one['seconds']:.2f}", f"{one['ms_per_row']:.3g}")
        table.add_row("total", "", *(_short(found["total"][what]) for what in numbers[1:5]), style="bold")
        return table

    def _notes(self, found: dict[str, Any]) -> list[str]:
        notes = ["share: of what tells the completions of a prompt apart; seconds: waited for beyond the rewards before it."]
        if any(one["gated"] for one in found["rewards"].values()):
            notes.append("gated: not asked, and scores 0.")
        if found["total"]["unscorable"]:
            notes.append(f"{found['total']['unscorable']:,} rows have no total: a reward with a weight failed, or none gave a score.")
        for name, one in found["rewards"].items():
            if one["first_failure"]:
                notes.append(f"{name} failed on {one['error'] + one['timeout']:,} of {found['rows']:,} rows; first: {one['first_failure']}")
            if one["cached"]:
                notes.append(f"{name}: {one['cached']:,} scores were remembered")
            if one["counts"]:
                notes.append(f"{name}: " + ", ".join(f"{what} {value:,.10g}" for what, value in one["counts"].items()))
        if found["error_budget"]:
            notes.append(f"A run would stop here: {found['error_budget'].splitlines()[0].rstrip(':')}.")
        if found["expect"] is not None:
            notes.append(self._agreement(found["expect"]))
        return notes

    def _agreement(self, compared: dict[str, Any]) -> str:
        agreeing = compared["compared"] - compared["disagreeing"]
        share = f" ({agreeing / compared['compared']:.2%})" if compared["compared"] else ""
        gone = f"; {compared['without_score']:,} labels have no score" if compared["without_score"] else ""
        correlation = "" if compared["correlation"] is None else f"; correlation {compared['correlation']:.3f}"
        return f"Labels {self._label_of}: {agreeing:,} of {compared['compared']:,} agree{share}{gone}{correlation}"

    def _heading(self) -> str:
        shown = len(self._top)
        if self.labels is not None and not shown:
            return "No score differs from its label." if self.labels.compared.any() else "No label has a score to be compared with."
        if self.labels is not None:
            return f"Rows whose score differs most from its label ({shown} of {int(self.labels.disagreeing.sum()):,}):"
        if not shown:
            return "No row has a total: nothing would be learnt." if self.contradicted else "All totals are equal: no row stands out."
        return (
            f"The {shown} largest outliers: totals furthest from the mean of the prompt's other completions (of all others, where a "
            "prompt has one), in standard deviations of all totals; among equals, those whose rewards differ most"
        )

    def _block(self, row: dict[str, Any]) -> str:
        said = [_said(name, score, row["contributions"][name]) for name, score in row["rewards"].items()]
        against = f", expected {_short(row['expected'])}" if self.labels is not None else f", {row['deviation']:.2f} std from the others"
        answer = "" if row["answer"] is None else f"\n  answer      {_cut(str(row['answer']), -PROMPT)}"
        return (
            f"\nrow {row['row']:,}: total {_short(row['total'])}{against}; {', '.join(said)}\n"
            f"  prompt      {_cut(row['prompt'], PROMPT)}{answer}\n  completion  {_cut(row['completion'], -COMPLETION)}"
        )


def number(value: Tensor | float) -> float | None:
    """A number for JSON: null where there is none, and no more digits than it has."""
    plain = float(value)
    return None if math.isnan(plain) else float(f"{plain:.7g}")


def _labels(findings: Findings, total: Tensor, expected: tuple[str | None, str, list[float | None]]) -> Labels:
    name, _, labels = expected
    of_rows = [labels[row] for row in findings.rows]
    given = torch.tensor([math.nan if label is None else label for label in of_rows], dtype=torch.float64)
    binary = all(label in (None, 0.0, 1.0) for label in of_rows)
    return Labels((total if name is None else findings.raw[name]).double(), given, binary)


def _spread(values: Tensor) -> dict[str, float | None]:
    """Mean, population standard deviation and extremes of the values that are numbers."""
    known = values[~values.isnan()].double()
    if not len(known):
        return dict.fromkeys(("mean", "std", "min", "max"))
    return {"mean": number(known.mean()), "std": number(known.std(correction=0)), "min": number(known.min()), "max": number(known.max())}


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _said(name: str, score: float | str, brought: float | None) -> str:
    """`style 0.5 → +0.1` for a score of 0.5 that brings 0.1."""
    said = score if isinstance(score, str) else _short(score)
    return f"{name} {said}" if brought is None or score == "abstained" else f"{name} {said} → {brought:+.3g}"


def _cut(text: str, limit: int) -> str:
    """So many characters from the start, or below 0 up to the end."""
    quoted = in_quotes(text)
    return quoted if len(quoted) <= abs(limit) else f"{quoted[:limit]}..." if limit > 0 else f"...{quoted[limit:]}"
