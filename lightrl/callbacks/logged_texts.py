"""Texts and tables in every logger that has a place for them: TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import Logger, MLFlowLogger, WandbLogger

from lightrl.training.reports.run_ledger import place_in_log

Row = Mapping[str, str | float | int | None]
"""A row of a table, by column; None: there is no value."""


def writers(logger: Logger, method: str) -> list[Any]:
    """The logger itself, or the `SummaryWriter` of TensorBoard or another object in it, if it has this method: one or none."""
    return [writer for writer in (logger, getattr(logger, "experiment", None)) if hasattr(writer, method)][:1]


def add_text(trainer: Trainer, tag: str, text: str) -> None:
    """Write Markdown to every logger of the trainer that has a place for it.

    TensorBoard has a tab for it. In Weights & Biases it is a table of one row, whose name begins with `texts/`, since a number may have the
    same tag; in MLflow the artifact `TAG/STEP.md`.
    """
    step = place_in_log(trainer)
    for logger in trainer.loggers:
        if isinstance(logger, WandbLogger):
            logger.log_text(f"texts/{tag}", columns=["step", "text"], data=[[step, text]])  # type: ignore[list-item]
        elif isinstance(logger, MLFlowLogger):
            logger.experiment.log_text(logger.run_id, text, f"{tag}/{step}.md")
        else:
            for writer in writers(logger, "add_text"):
                writer.add_text(tag, text, step)


def add_table(trainer: Trainer, tag: str, rows: Sequence[Row], markdown: str) -> None:
    """Write rows that all have the same columns to every logger of the trainer that has a place for them; nothing without rows.

    Weights & Biases and MLflow, where all rows of a tag are one artifact `TAG.json`, have tables that can be filtered, and so has a logger
    with a method `add_table`; TensorBoard gets the same table as Markdown.
    """
    step = place_in_log(trainer)
    for logger in trainer.loggers if rows else ():
        if isinstance(logger, WandbLogger):
            logger.log_table(f"texts/{tag}", columns=["step", *rows[0]], data=[[step, *row.values()] for row in rows])
        elif isinstance(logger, MLFlowLogger):
            # MLflow reads a table back before it adds rows to it, each time with a bar across the terminal
            os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
            columns = {"step": [step] * len(rows), **{name: [row[name] for row in rows] for name in rows[0]}}
            logger.experiment.log_table(logger.run_id, columns, f"{tag}.json")
        elif own := writers(logger, "add_table"):
            own[0].add_table(tag, rows, step)
        else:
            for writer in writers(logger, "add_text"):
                writer.add_text(tag, markdown, step)
