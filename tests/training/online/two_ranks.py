"""Two processes that train together, of which only the first has groups without signal; started by test_dynamic_sampling.py.

    python two_ranks.py FOLDER EXHAUSTED

Every rank writes what it drew and trained on, what was logged and a sum of its weights to FOLDER/rank{R}.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightrl_dapo import DynamicSampler
from lightrl_workshop import CodePoints, quiet_trainer

from lightrl import (
    GroupRelative,
    PolicyOptimization,
    Prompt,
    PromptData,
    PromptSource,
    TinyPolicy,
    TokenMean,
    TransformersEngine,
)

SIZE, ROLLOUTS = 64, 4


class Numbers(PromptSource):
    """Sixty-four prompts."""

    size = SIZE

    def prompt(self, index: int) -> Prompt:
        return Prompt(id=str(index), text=f"{index:02d}=")


class OnRankZeroOften(CodePoints):
    """Something that varies; on rank 0 every other prompt (or, where a batch may stay short, every prompt) is all right."""

    def __init__(self, every: int) -> None:
        super().__init__(modulus=97)
        self.every = every

    def score(self, prompt: Prompt, completion: str) -> float:
        if torch.distributed.get_rank() == 0 and int(prompt.id) % self.every == 0:
            return 1.0
        return super().score(prompt, completion)


class Witness(Callback):
    """Writes down what this rank saw."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: dict[str, list[Any]] = {"drawn": [], "trained": [], "logged": []}

    def on_fit_start(self, trainer: Trainer, pl_module: Any) -> None:
        data = trainer.datamodule
        draw = data.draw

        def noted(n: Any) -> list[Prompt]:
            prompts = draw(n)
            self.seen["drawn"] += [prompt.id for prompt in prompts]
            return prompts

        data.draw = noted

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        rows = pl_module.experience
        groups = [(rows.group == number).nonzero()[:, 0] for number in torch.unique(rows.group)]
        self.seen["trained"].append([[rows.prompts[int(g[0])].id, float(rows.rewards[g].max() - rows.rewards[g].min())] for g in groups])
        self.seen["logged"].append({name: float(value) for name, value in trainer.logged_metrics.items()})

    def on_fit_end(self, trainer: Trainer, pl_module: Any) -> None:
        weights = float(sum(p.double().abs().sum() for p in pl_module.policy.parameters()))
        written = {**self.seen, "weights": weights, "steps": trainer.global_step}
        (self.folder / f"rank{trainer.global_rank}.json").write_text(json.dumps(written))


def main() -> None:
    """Train for a few rollouts."""
    folder, exhausted = Path(sys.argv[1]), sys.argv[2]
    sampler = DynamicSampler(group_size=4, max_rounds=10 if exhausted == "raise" else 1, exhausted=exhausted, surplus="carry")  # type: ignore[arg-type]
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=sampler, aggregation=TokenMean(), minibatches=2),
        rewards={"score": OnRankZeroOften(2 if exhausted == "raise" else 1)},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=8,
        micro_batch_tokens=64,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
    )
    quiet_trainer(devices=2, strategy="ddp", max_epochs=ROLLOUTS, default_root_dir=folder, callbacks=[Witness(folder)]).fit(
        module, datamodule=PromptData(train=Numbers())
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
