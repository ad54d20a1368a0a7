"""The metrics of torchmetrics that a config names, fed with the rows of a whole evaluation."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar, get_args, get_origin, get_type_hints

import torch
from lightning.pytorch.utilities import rank_zero_warn
from torchmetrics import Metric

from lightrl.ops.thoughts import without_thoughts
from lightrl.ranks import Ranks
from lightrl.types import ScoredRollout

Given = TypeVar("Given")
Expected = TypeVar("Expected")


class NamedMetrics(ABC, Generic[Given, Expected]):
    """Metrics by name, whose values are logged as `metrics/NAME`; each gets every row of an evaluation once, whichever rank had it."""

    examples: Sequence[tuple[Given, Expected]]
    """Two rows such as those of a run."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        """
        Raises:
            ValueError: one of them is no metric of such rows.
        """
        self._metrics = dict(metrics)
        self._rows: list[tuple[Given, Expected]] = []
        for name, metric in self._metrics.items():
            for part in (module for module in metric.modules() if isinstance(module, Metric)):
                part.distributed_available_fn = bool  # False: a metric is given the rows of all ranks
            try:
                self._values(name, metric, self.examples)
            except (TypeError, ValueError, AttributeError, RuntimeError) as error:
                raise ValueError(
                    f"the metric {name}: {type(metric).__name__} cannot take rows such as {self.examples[0]!r}, where the first value is "
                    f"what was answered and the second what was expected: {error}"
                ) from error

    def __bool__(self) -> bool:
        return bool(self._metrics)

    def add(self, rows: Sequence[tuple[Given, Expected]]) -> None:
        """Keep rows of this rank: what was answered, and what should have been."""
        self._rows += rows if self else ()

    def compute(self, ranks: Ranks) -> dict[str, float]:
        """The values over the rows of all ranks, which are then forgotten; nothing without rows. Every rank calls it."""
        if not self:
            return {}
        mine, self._rows = self._rows, []
        rows = [row for there in ranks.gather(mine) for row in there]
        each = [self._values(name, metric, rows) for name, metric in self._metrics.items()] if rows else []
        return {f"metrics/{name}": value for values in each for name, value in values.items()}

    @abstractmethod
    def _update(self, metric: Metric, given: list[Given], expected: list[Expected]) -> None:
        """Call the metric's `update`."""

    def _values(self, name: str, metric: Metric, rows: Sequence[tuple[Given, Expected]]) -> dict[str, float]:
        self._update(metric, [given for given, _ in rows], [expected for _, expected in rows])
        value = metric.compute()
        metric.reset()
        return {f"{name}/{key}": float(part) for key, part in value.items()} if isinstance(value, Mapping) else {name: float(value)}


class TextMetrics(NamedMetrics[str, str | list[str]]):
    """Metrics of completions and answers, such as those of `torchmetrics.text`."""

    examples = (("one two three four", "one two three four"), ("one", "two three four five"))

    def _update(self, metric: Metric, given: list[str], expected: list[str | list[str]]) -> None:
        several = _depth(get_type_hints(type(metric).update).get("target")) > 1
        # BLEU would take a text alone for a list of letters, and an error rate a list for a text, both in silence
        metric.update(given, [[one] if several and isinstance(one, str) else one for one in expected])


class ScoreMetrics(NamedMetrics[float, int]):
    """Metrics of probabilities and labels, such as those of `torchmetrics.classification`."""

    examples = ((0.75, 1), (0.25, 0))

    def _update(self, metric: Metric, given: list[float], expected: list[int]) -> None:
        metric.update(torch.tensor(given, device=metric.device), torch.tensor(expected, device=metric.device))


def answered(scored: ScoredRollout) -> list[tuple[str, str | list[str]]]:
    """The answer that each completion gives, without thoughts, and that of its prompt: a text, or several of which each is right.

    A prompt without an answer is left out, with a warning.
    """
    rows: list[tuple[str, str | list[str]]] = []
    for prompt, completion in zip(scored.prompts, scored.completions, strict=True):
        answer = prompt.answer
        several = isinstance(answer, list) and bool(answer) and all(isinstance(one, str) for one in answer)
        if answer is None:
            rank_zero_warn(f"evaluation.metrics leaves out prompts without an answer, such as {prompt.id!r}")
        else:
            rows.append((without_thoughts(completion).strip(), answer if several or isinstance(answer, str) else json.dumps(answer)))
    return rows


def _depth(hint: object) -> int:
    """How many lists are inside each other in a type."""
    inside = max(map(_depth, get_args(hint)), default=0)
    return inside + (get_origin(hint) in (list, Sequence))
