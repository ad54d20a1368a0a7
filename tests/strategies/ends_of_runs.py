"""The witness of every rollout in the runs of test_checkpoints.py."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer


class Witness(Callback):
    """Writes what this rank trained on, the norms of its gradients, and in the end a sum over each weight."""

    def __init__(self, name: str) -> None:
        """
        Args:
            name: of the file.
        """
        self.name, self.seen = name, dict[str, Any]()

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        configured: Any = getattr(trainer.strategy, "config", None)
        if configured is not None and configured["zero_optimization"]["stage"] == 3:
            # by default ZeRO-3 keeps small tensors whole, and all are small here
            configured["zero_optimization"]["stage3_param_persistence_threshold"] = 0

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        rows = pl_module.experience
        logged = {name: float(trainer.logged_metrics[name]) for name in ("grad_norm", "reward", "progress/tokens")}
        self.seen[str(trainer.current_epoch)] = {"prompts": [p.id for p in rows.prompts], "completions": list(rows.completions), **logged}

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        with pl_module.learner.adapter.gathered_weights():
            weights = {name: p.detach().double().flatten().tolist() for name, p in pl_module.named_parameters()}
        file = Path(os.environ["WITNESS_FOLDER"]) / f"{self.name}.rank{trainer.global_rank}.json"
        file.write_text(json.dumps({"rollouts": self.seen, "weights": weights}))
