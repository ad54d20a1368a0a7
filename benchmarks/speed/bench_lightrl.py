"""Configs of lightrl for the cases of `make bench`, and the log-probs; what a case does not fix is the default."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.speed.bench_cases import LR, REAL, SORT6, Examples, Rollouts

ADAMW = "torch.optim.AdamW"
"""Fused, as TRL's trainers have it by default."""
FOLDER_LOGGER = "lightning.pytorch.loggers.TensorBoardLogger"


def rollout_config(case: Rollouts, policy: Path, prompts: Path, out: Path, seed: int = 0) -> dict[str, Any]:
    """GRPO on the prompts of a case."""
    source = class_of("PretrainedPolicy", path=str(policy))
    trainer = {"max_epochs": case.steps, "check_val_every_n_epoch": case.steps + 1}
    return run_config(out, "benchmarks.speed.bench_watch.Watch", trainer, seed) | {
        "model": {
            "policy": source if case.lora is None else class_of("LoraPolicy", base=source, r=case.lora),
            "algorithm": grpo(case.group, "SymmetricClip"),
            "rewards": {"noise": "benchmarks.speed.bench_reward.noise"},
            "engine": class_of("TransformersEngine", max_new_tokens=case.cap),
            "prompts_per_rollout": case.prompts,
            "optimizer": class_of(ADAMW, lr=LR, weight_decay=0.0, fused=True),
        },
        "data": {"train": class_of("JsonLines", path=str(prompts), answer=None, chat=case.size == REAL), "seed": seed},
    }


def sort6_config(policy: Path, prompts: Path, out: Path, seed: int) -> dict[str, Any]:
    """GRPO until the digits are sorted."""
    warmup = class_of("torch.optim.lr_scheduler.LinearLR", start_factor=1 / SORT6["warmup"], total_iters=SORT6["warmup"])
    trainer = {"max_epochs": SORT6["steps"], "check_val_every_n_epoch": SORT6["steps"] + 1}
    return run_config(out, "benchmarks.speed.bench_watch.UntilSorted", trainer, seed) | {
        "model": {
            "policy": class_of("PretrainedPolicy", path=str(policy)),
            "algorithm": grpo(int(SORT6["group"]), class_of("DecoupledClip", low=0.2, high=0.28)),
            "rewards": {"correct": "ExactMatch"},
            "engine": class_of("TransformersEngine", max_new_tokens=SORT6["cap"]),
            "prompts_per_rollout": SORT6["prompts"],
            "optimizer": class_of(ADAMW, lr=SORT6["lr"], betas=[0.9, 0.95], weight_decay=0.0, fused=True),
            "lr_scheduler": warmup,
        },
        "data": {"train": class_of("JsonLines", path=str(prompts), chat=False), "seed": seed},
    }


def examples_config(case: Examples, policy: Path, examples: Path, out: Path, seed: int = 0) -> dict[str, Any]:
    """Supervised fine-tuning, preferences or a reward model on given texts."""
    pairs = class_of("JsonLines", path=str(examples), answer="completion", chat=case.size == REAL)
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "sft": ("SupervisedFineTuning", {}),
        "sft_packed": ("SupervisedFineTuning", {}),
        "dpo": ("PreferenceOptimization", {"objective": "DPO"}),
        "reward_model": ("RewardModeling", {}),
    }
    name, arguments = kinds[case.kind]
    settings = {
        "policy": class_of("PretrainedPolicy", path=str(policy)),
        "batch_size": case.batch,
        "optimizer": class_of(ADAMW, lr=LR, weight_decay=0.0, fused=True),
    }
    config = run_config(out, "benchmarks.speed.bench_watch.Watch", {"max_steps": case.steps, "check_val_every_n_epoch": 1000}, seed)
    return config | {"model": class_of(name, **settings, **arguments), "data": {"train": pairs, "seed": seed}}


def run(python: Path, config: dict[str, Any], out: Path, cores: set[int]) -> None:
    """Run `lightrl fit` with a config; end everything, with the last lines of its output, if it fails."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(config, indent=1))
    launch([str(python), "-m", "lightrl", "fit", "--config", str(out / "config.json")], out / "log.txt", cores)


def launch(command: list[str], log: Path, cores: set[int]) -> None:
    """Run a command on some cores, on one thread, with its output in a file."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    with log.open("w") as output:
        done = subprocess.run(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            check=False,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
    if done.returncode:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        sys.exit(f"{' '.join(command)}\nfailed with status {done.returncode}; its last lines:\n{last}")


def run_config(out: Path, watch: str, trainer: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """A metered run on the CPU with files of its own, and otherwise as any run."""
    logger = class_of(FOLDER_LOGGER, save_dir=str(out), name="run")
    callbacks = [class_of(watch, file=str(out / "meter.json"))]
    return {
        "seed_everything": seed,
        "trainer": {"accelerator": "cpu", "devices": 1, "logger": logger, "callbacks": callbacks, **trainer},
    }


def grpo(group: int, clip: str | dict[str, Any]) -> dict[str, Any]:
    """GRPO as TRL has it by default: no KL, and every token weighs the same."""
    return class_of("GRPO", sampler=class_of("GroupSampler", group_size=group), clip=clip, aggregation="TokenMean", kl=None)


def class_of(path: str, /, **arguments: Any) -> dict[str, Any]:
    """A class of a config with its arguments."""
    return {"class_path": path, "init_args": arguments} if arguments else {"class_path": path}


def logprobs(policy: Path, out: Path) -> None:
    """Log-probs of completions under a large vocabulary, with their gradient; called in a process of its own."""
    import torch

    from benchmarks.speed.bench_cases import LOGPROBS
    from benchmarks.speed.bench_logprobs import measured
    from lightrl import PretrainedPolicy

    built = PretrainedPolicy(str(policy)).build()

    def loss(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = built(ids, mask).logprobs
        return found.sum()

    measured(loss, built, LOGPROBS, out)


if __name__ == "__main__":
    logprobs(Path(sys.argv[1]), Path(sys.argv[2]))
