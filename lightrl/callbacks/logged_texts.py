"""Texts and tables in every logger that has a place for them: TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import Logger, MLFlowLogger, WandbLogger

Row = Mapping[str, str | float | int | None]
"""A row of a table, by column; None: there is no value."""


class LoggedTexts(ABC):
    """The place for texts in one logger."""

    @abstractmethod
    def text(self, tag: str, text: str, step: int) -> None:
        """Write Markdown under a tag, for a step."""

    @abstractmethod
    def table(self, tag: str, rows: Sequence[Row], markdown: str, step: int) -> None:
        """Write rows that all have the same columns, or the same table as Markdown where a logger has no tables."""


class TensorBoardTexts(LoggedTexts):
    """The tab `Text`, in which a table is Markdown."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def text(self, tag: str, text: str, step: int) -> None:
        self.writer.add_text(tag, text, step)

    def table(self, tag: str, rows: Sequence[Row], markdown: str, step: int) -> None:
        self.writer.add_text(tag, markdown, step)


class WandbTexts(LoggedTexts):
    """Tables of Weights & Biases, which can be filtered and sorted; a text is a table of one row. Their names begin with `texts/`,
    since a number may have the same tag."""

    def __init__(self, logger: WandbLogger) -> None:
        self.logger = logger

    def text(self, tag: str, text: str, step: int) -> None:
        self.logger.log_text(f"texts/{tag}", columns=["step", "text"], data=[[step, text]])  # type: ignore[list-item]

    def table(self, tag: str, rows: Sequence[Row], markdown: str, step: int) -> None:
        self.logger.log_table(f"texts/{tag}", columns=["step", *rows[0]], data=[[step, *row.values()] for row in rows])


class MLFlowTexts(LoggedTexts):
    """Artifacts of an MLflow run: a text is `TAG/STEP.md`, and all rows of a tag are one table, `TAG.json`, which can be filtered."""

    def __init__(self, logger: MLFlowLogger) -> None:
        self.logger = logger
        # MLflow reads a table back before it adds rows to it, each time with a bar across the terminal
        os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

    def text(self, tag: str, text: str, step: int) -> None:
        self.logger.experiment.log_text(self.logger.run_id, text, f"{tag}/{step}.md")

    def table(self, tag: str, rows: Sequence[Row], markdown: str, step: int) -> None:
        columns = {"step": [step] * len(rows), **{name: [row[name] for row in rows] for name in rows[0]}}
        self.logger.experiment.log_table(self.logger.run_id, columns, f"{tag}.json")


def texts_of(logger: Logger) -> LoggedTexts | None:
    """The place for texts in a logger; None if it has none."""
    if isinstance(logger, WandbLogger):
        return WandbTexts(logger)
    if isinstance(logger, MLFlowLogger):
        return MLFlowTexts(logger)
    writer: Any = getattr(logger, "experiment", None)
    return TensorBoardTexts(writer) if hasattr(writer, "add_text") else None


def add_text(trainer: Trainer, tag: str, text: str, step: int) -> None:
    """Write Markdown to every logger of the trainer that has a place for it."""
    for place in _places(trainer):
        place.text(tag, text, step)


def add_table(trainer: Trainer, tag: str, rows: Sequence[Row], markdown: str, step: int) -> None:
    """Write a table to every logger of the trainer that has a place for it; nothing without rows."""
    for place in _places(trainer) if rows else ():
        place.table(tag, rows, markdown, step)


def _places(trainer: Trainer) -> Iterator[LoggedTexts]:
    return (place for logger in trainer.loggers if (place := texts_of(logger)) is not None)
