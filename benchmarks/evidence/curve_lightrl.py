"""The runs of lightrl with one seed for `make bench CASE=curves`: their configs, and the curves in their logs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightrl_runs.report.run_folder import read_run
from safetensors.torch import load_file

from benchmarks.evidence.curve_cases import (
    BETAS,
    CAP,
    EPS,
    MAX_GRAD_NORM,
    METHODS,
    NUMBERS,
    SAMPLED,
    Curves,
    Given,
    Online,
    run_folder,
    start_folder,
    write_curves,
)
from benchmarks.speed.bench_lightrl import ADAMW, FOLDER_LOGGER, class_of
from lightrl.config.build.run import Run
from lightrl.config.merge.resolve import resolve
from lightrl.config.read.settings import read_words

LOGGED = {
    "dpo": {"accuracy": "val/rewards/accuracies", "margin": "val/rewards/margins"},
    "reward_model": {"accuracy": "val/accuracy", "margin": "val/margin"},
    "sft": {"loss": "val/loss"},
}
"""What a run calls the curves of `NUMBERS`."""
CLASSES = {"dpo": "PreferenceOptimization", "reward_model": "RewardModeling", "sft": "SupervisedFineTuning"}


class GivenHead(Callback):
    """Starts a reward model with the head of a folder: one that is drawn at random would differ from that of the other side."""

    def __init__(self, folder: str) -> None:
        """
        Args:
            folder: of a reward model.
        """
        self.folder = folder

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Copy it."""
        module: Any = pl_module
        with torch.no_grad():
            module.policy.model.score.weight.copy_(load_file(Path(self.folder) / "model.safetensors")["score.weight"])


def config(method: Online | Given, folder: Path, seed: int, out: Path) -> dict[str, Any]:
    """A run of a method.

    Args:
        method: of `curve_cases`.
        folder: with the start and the data of a seed.
        seed: of sampling.
        out: where the run logs.
    """
    sampled = run_folder(out.parent, method.name, "trl", seed) / SAMPLED
    logger = class_of(FOLDER_LOGGER, save_dir=str(out), name="run")
    trainer: dict[str, Any] = {"accelerator": "cpu", "devices": 1, "logger": logger}
    trainer |= {"enable_checkpointing": False, "enable_progress_bar": False}
    model: dict[str, Any] = {
        "policy": class_of("PretrainedPolicy", path=str(folder / "policy")),
        "optimizer": class_of(ADAMW, lr=method.rate, betas=list(BETAS), eps=EPS, weight_decay=0.0, fused=True),
        "max_grad_norm": MAX_GRAD_NORM,
    }
    data: dict[str, Any] = {"shuffle": False, "train": rows(folder / "train.jsonl")}
    if isinstance(method, Online):
        trainer |= {"max_epochs": method.rollouts}
        model |= online(method, seed)
        if method.replayed:
            model["engine"] = class_of("benchmarks.evidence.recorded_engine.RecordedEngine", file=str(sampled))
    else:
        trainer |= {"max_steps": method.steps, "val_check_interval": method.every, "check_val_every_n_epoch": None}
        model = class_of(CLASSES[method.name], batch_size=method.batch, **model, **objective(method))
        data |= {"validation": rows(folder / "held_out.jsonl"), "validation_batch_size": 4096}
        if method.name == "reward_model":
            trainer["callbacks"] = [class_of("benchmarks.evidence.curve_lightrl.GivenHead", folder=str(folder / "reward_model"))]
    return {"seed_everything": seed, "trainer": trainer, "model": model, "data": data}


def online(method: Online, seed: int) -> dict[str, Any]:
    """The section `model` of GRPO and RLOO as the other side has them, without KL."""
    sampler = class_of("GroupSampler", group_size=method.group)
    # TRL adds 1e-4 to the deviation of a group
    grpo = {
        "advantage": class_of("GroupNormalized", eps=1e-4),
        "clip": class_of("SymmetricClip", epsilon=method.clip),
        "aggregation": "TokenMean",
    }
    slots = {"sampler": sampler, "kl": None, "minibatches": method.steps} | (grpo if method.algorithm == "grpo" else {})
    return {
        "algorithm": class_of(method.algorithm.upper(), **slots),
        "rewards": {"correct": "ExactMatch"},
        "engine": class_of("TransformersEngine", max_new_tokens=CAP, seed=seed),
        "prompts_per_rollout": method.prompts,
        "seed": seed,
    }


def objective(method: Given) -> dict[str, Any]:
    """What a method has that others do not."""
    return {"objective": class_of("DPO", beta=method.beta)} if method.name == "dpo" else {}


def rows(file: Path) -> dict[str, Any]:
    """Prompts of a file, plain texts."""
    return class_of("JsonLines", path=str(file), answer="answer", chat=False)


def carry_out(method: Online | Given, start: Path, seed: int, folder: Path) -> Curves:
    """One run in this process."""
    file = folder / "config.json"
    file.write_text(json.dumps(config(method, start, seed, folder)))
    run = Run("fit", resolve("fit", read_words(["--config", str(file)])))
    run.start()
    return curves(method, Path(run.trainer.log_dir))


def curves(method: Online | Given, log_dir: Path) -> Curves:
    """The curves in the log of a run."""
    log = read_run(log_dir).log
    if isinstance(method, Online):
        return {name: [((x - 1) * method.rows, y) for x, y in sorted(log.numbers[name].items())] for name in NUMBERS[method.name]}
    found = {name: sorted(log.numbers[LOGGED[method.name][name]].items()) for name in NUMBERS[method.name]}
    return {name: [(x * method.batch, y) for x, y in series if x > 0] for name, series in found.items()}


def main() -> None:
    """Carry out runs, one after the other, and write the curves of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("methods", nargs="+", choices=METHODS)
    arguments = parser.parse_args()
    for name in arguments.methods:
        folder = run_folder(arguments.out, name, "lightrl", arguments.seed)
        write_curves(folder, carry_out(METHODS[name], start_folder(arguments.out, arguments.seed), arguments.seed, folder))


if __name__ == "__main__":
    main()
