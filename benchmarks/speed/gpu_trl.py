"""One run of TRL's GRPO for `make bench CASE=gpu`; run by the Python of an environment that has TRL and not lightrl."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

from benchmarks.speed.bench_reward import noise
from benchmarks.speed.bench_trl import Steps
from benchmarks.speed.gpu_cases import LR, SHAPES, STEPS, WARM, device_meter


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("policy", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--vllm", action="store_true", help="generate with vLLM in the trainer's process")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    shape, meter, cuda = SHAPES[arguments.shape], device_meter(), torch.cuda.is_available()

    def score(completions: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        meter.tokens += sum(map(len, completion_ids))
        return [noise(completion) for completion in completions]

    config = GRPOConfig(
        output_dir=str(arguments.out / "run"),
        max_steps=STEPS + WARM,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=shape.rows // 8,
        num_generations=shape.group,
        max_completion_length=shape.cap,
        learning_rate=LR,
        lr_scheduler_type="constant",
        bf16=True,
        model_init_kwargs={"dtype": "bfloat16"},
        gradient_checkpointing=False,
        use_cpu=not cuda,
        report_to="tensorboard",
        use_vllm=arguments.vllm,
        vllm_mode="colocate",
    )
    data = load_dataset("json", data_files=str(arguments.data), split="train")
    trainer = GRPOTrainer(str(arguments.policy), score, config, data, callbacks=[Steps(meter)])
    if arguments.vllm:
        # copying the weights is part of a rollout
        for name in ("sync_weights", "generate"):
            meter.watch(trainer.vllm_generation, name, "generate")
    else:
        meter.watch(trainer.model, "generate", "generate")
    meter.watch(trainer.model, "forward", "forward")
    meter.watch(trainer.accelerator, "backward", "backward")
    meter.watch(torch.optim.AdamW, "step", "optimizer")
    trainer.train()
    meter.write(arguments.out / "meter.json")


if __name__ == "__main__":
    main()
