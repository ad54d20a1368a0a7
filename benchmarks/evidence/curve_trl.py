"""The runs of TRL with one seed for `make bench CASE=curves`; carried out by the Python of an environment that has TRL and not lightrl."""

from __future__ import annotations

import argparse
import json
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from datasets import load_dataset
from trl import (
    DPOConfig,
    DPOTrainer,
    GRPOConfig,
    GRPOTrainer,
    RewardConfig,
    RewardTrainer,
    RLOOConfig,
    RLOOTrainer,
    SFTConfig,
    SFTTrainer,
)

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

EVALUATED = {"dpo": {"accuracy": "eval_rewards/accuracies", "margin": "eval_rewards/margins"}, "sft": {"loss": "eval_loss"}}
EVALUATED["reward_model"] = {"accuracy": "eval_accuracy", "margin": "eval_margin"}


def shared(method: Online | Given, seed: int, out: Path) -> dict[str, Any]:
    """What all trainers are told: float32 on the CPU, the optimizer of `curve_cases`, and nothing to save."""
    return {
        "output_dir": str(out / "run"), "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "seed": seed,
        "learning_rate": method.rate, "lr_scheduler_type": "constant", "adam_beta1": BETAS[0], "adam_beta2": BETAS[1], "adam_epsilon": EPS,
        "weight_decay": 0.0, "max_grad_norm": MAX_GRAD_NORM, "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
    }  # fmt: skip


def online(method: Online, folder: Path, seed: int, out: Path) -> Curves:
    """GRPO or RLOO without KL, on prompts in the order of the file."""
    rewards: list[float] = []
    sampled: list[list[list[int]]] = []

    def correct(completions: list[str], answer: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        # as lightrl's ExactMatch does
        found = [float(completion.strip() == right) for completion, right in zip(completions, answer, strict=True)]
        rewards.append(sum(found) / len(found))
        sampled.append(completion_ids)
        return found

    settings = shared(method, seed, out) | {
        "max_steps": method.rollouts * method.steps, "per_device_train_batch_size": method.rows // method.steps,
        "steps_per_generation": method.steps, "num_generations": method.group, "max_completion_length": CAP, "shuffle_dataset": False,
        "temperature": 1.0, "top_p": 1.0, "top_k": 0, "beta": 0.0, "epsilon": method.clip, "epsilon_high": method.clip,
        "logging_steps": method.steps,
    }  # fmt: skip
    policy, rows = str(folder / "policy"), rows_of(folder / "train.jsonl").select_columns(["prompt", "answer"])
    if method.algorithm == "grpo":
        # bnpo: the mean over the tokens of the optimizer step. The default, dapo, divides by those of the rollout
        trainer: Any = GRPOTrainer(policy, correct, GRPOConfig(**settings, loss_type="bnpo", scale_rewards="group"), rows)
    else:
        trainer = RLOOTrainer(policy, correct, RLOOConfig(**settings, normalize_advantages=False), rows)
    # a batch in the order in which it was sampled is cut into whole groups
    unshuffled = patch("trl.trainer.grpo_trainer.shuffle_sequence_dict", lambda batch: batch)
    with unshuffled if method.whole_groups else nullcontext():
        trainer.train()
    (out / SAMPLED).write_text(json.dumps(sampled))
    norms = [entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry]
    found = {"reward": rewards, "grad_norm": norms}
    return {name: [(number * method.rows, value) for number, value in enumerate(found[name])] for name in NUMBERS[method.name]}


def given(method: Given, folder: Path, seed: int, out: Path) -> Curves:
    """DPO, a reward model or supervised fine-tuning on examples in the order of the file, evaluated in one batch."""
    settings = shared(method, seed, out) | {
        "max_steps": method.steps, "per_device_train_batch_size": method.batch, "train_sampling_strategy": "sequential",
        "eval_strategy": "steps", "eval_steps": method.every, "per_device_eval_batch_size": 4096, "logging_steps": method.every,
    }  # fmt: skip
    columns = ["prompt", "completion"] if method.name == "sft" else ["prompt", "chosen", "rejected"]
    train, held_out = (rows_of(folder / f"{name}.jsonl").select_columns(columns) for name in ("train", "held_out"))
    sets, policy = {"train_dataset": train, "eval_dataset": held_out}, str(folder / "policy")
    if method.name == "sft":
        trainer: Any = SFTTrainer(policy, SFTConfig(**settings), **sets)
    elif method.name == "dpo":
        trainer = DPOTrainer(policy, args=DPOConfig(**settings, beta=method.beta), **sets)
    else:
        trainer = RewardTrainer(str(folder / "reward_model"), RewardConfig(**settings), **sets)
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
    return {
        name: [(entry["step"] * method.batch, entry[EVALUATED[method.name][name]]) for entry in logged] for name in NUMBERS[method.name]
    }


def rows_of(file: Path) -> Any:
    """The rows of a file with one JSON object per line."""
    return load_dataset("json", data_files=str(file), split="train")


def main() -> None:
    """Carry out runs, one after the other, and write the curves of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("methods", nargs="+", choices=METHODS)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    for name in arguments.methods:
        method, folder = METHODS[name], run_folder(arguments.out, name, "trl", arguments.seed)
        learn: Any = online if isinstance(method, Online) else given
        write_curves(folder, learn(method, start_folder(arguments.out, arguments.seed), arguments.seed, folder))


if __name__ == "__main__":
    main()
