"""The description of a run in its log: the resolved config and the algorithm, slot by slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import MLFlowLogger, TensorBoardLogger, WandbLogger

from lightrl.callbacks.logged_texts import add_text
from lightrl.config.describe.algorithms import rows
from lightrl.config.describe.choice import Choice


class DescribeRun(Callback):
    """Writes the resolved config and the table of `lightrl explain` as text, and the config as hyper-parameters.

    TensorBoard gets no hyper-parameters, since they would make a second run of every run.
    """

    def __init__(self, text: str, algorithm: Choice | None) -> None:
        self.text, self.algorithm = text, algorithm

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write both, on the first rank."""
        if not trainer.is_global_zero:
            return
        for logger in trainer.loggers:
            if trainer.enable_autolog_hparams and not isinstance(logger, TensorBoardLogger):
                logger.log_hyperparams(dict(flat(yaml.safe_load(self.text))))
        add_text(trainer, "run/config", f"```yaml\n{self.text}\n```")
        if self.algorithm is not None:
            name_algorithm(trainer, self.algorithm.cls.__name__, table_of(self.algorithm))
            add_text(trainer, "run/algorithm", table_of(self.algorithm))


def name_algorithm(trainer: Trainer, name: str, description: str) -> None:
    """Tag the run with its algorithm where a logger can be searched for tags, and describe it where a run has a description."""
    for logger in trainer.loggers:
        if isinstance(logger, WandbLogger):
            logger.experiment.tags = (*(logger.experiment.tags or ()), name)
        elif isinstance(logger, MLFlowLogger):
            logger.experiment.set_tag(logger.run_id, "algorithm", name)
            logger.experiment.set_tag(logger.run_id, "mlflow.note.content", description)


def table_of(chosen: Choice) -> str:
    """An algorithm as a Markdown table: slot, part, arguments, formula, source."""
    lines = [f"**{chosen.cls.__name__}**", "", "slot | part | arguments | formula | source", "--- | --- | --- | --- | ---"]
    cells = ([text.replace("|", "\\|").replace("\n", " ") for text in row] for row in rows(chosen))
    return "\n".join([*lines, *map(" | ".join, cells)])


def flat(tree: object, key: str = "", passed_over: str | None = None) -> Iterator[tuple[str, Any]]:
    """Every value of nested mappings under its dotted key, without levels of a name that is passed over."""
    if not isinstance(tree, Mapping) or not tree:
        yield key, tree
        return
    for name, value in tree.items():
        yield from flat(value, key if key and name == passed_over else f"{key}.{name}" if key else str(name), passed_over)
