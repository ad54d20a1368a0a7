"""Two processes that train together with a sampler that chooses prompts; started by test_curriculum_runs.py.

    python two_ranks_curriculum.py FOLDER SAMPLER

Every rank writes what it drew and completed, and the sampler's state, to FOLDER/rank{R}.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightrl_curriculum import EdgeSampler, ReplaySampler
from lightrl_workshop import CodePoints, quiet_trainer

from lightrl import DigitSorting, GroupRelative, PolicyOptimization, PromptData, Sampler, TinyPolicy, TransformersEngine

SAMPLERS: dict[str, Sampler] = {"edge": EdgeSampler(2, candidates=2), "replay": ReplaySampler(2, cooldown=1)}
ROLLOUTS = 5


class Witness(Callback):
    """Writes down what this rank saw."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.drawn: list[str] = []
        self.completed: list[list[str]] = []

    def on_fit_start(self, trainer: Trainer, pl_module: Any) -> None:
        data, draw = trainer.datamodule, trainer.datamodule.draw

        def noted(n: Any) -> list[Any]:
            prompts = draw(n)
            self.drawn += [prompt.id for prompt in prompts]
            return prompts

        data.draw = noted

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.completed.append([prompt.id for prompt in pl_module.experience.prompts[::2]])

    def on_fit_end(self, trainer: Trainer, pl_module: Any) -> None:
        written = {"drawn": self.drawn, "completed": self.completed, "state": pl_module.algorithm.sampler.state_dict()}
        (self.folder / f"rank{trainer.global_rank}.json").write_text(json.dumps(written))


def main() -> None:
    """Train for a few rollouts."""
    folder, sampler = Path(sys.argv[1]), SAMPLERS[sys.argv[2]]
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=sampler),
        rewards={"even": CodePoints(modulus=2)},
        engine=TransformersEngine(max_new_tokens=4),
        prompts_per_rollout=8,
    )
    quiet_trainer(devices=2, strategy="ddp", max_epochs=ROLLOUTS, default_root_dir=folder, callbacks=[Witness(folder)]).fit(
        module, datamodule=PromptData(train=DigitSorting(3, 90))
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
