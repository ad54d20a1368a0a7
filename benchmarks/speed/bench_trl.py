"""One run of TRL's trainers for `make bench`; run by the Python of an environment that has TRL and not lightrl."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from transformers import TrainerCallback
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, RewardConfig, RewardTrainer, SFTConfig, SFTTrainer

from benchmarks.speed.bench_cases import EXAMPLES, LOGPROBS, LR, REAL, ROLLOUTS, SORT6, Examples, Rollouts
from benchmarks.speed.bench_meter import Meter, cpu_of_all
from benchmarks.speed.bench_reward import noise

CPU = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": "tensorboard", "lr_scheduler_type": "constant"}
"""What the machine asks for; float32 as on the other side."""


class Steps(TrainerCallback):
    """Tells the meter of each step."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An optimizer step has been made."""
        self.meter.step()


def run_rollouts(case: Rollouts, policy: Path, prompts: Path, out: Path, seed: int) -> None:
    """GRPO on the prompts of a case."""
    meter, first = Meter(), list[float]()

    def score(completions: list[Any], completion_ids: list[list[int]], **_: Any) -> list[float]:
        first.append(cpu_of_all())
        meter.tokens += sum(map(len, completion_ids))
        return [noise(completion[0]["content"] if case.size == REAL else completion) for completion in completions]

    config = GRPOConfig(
        output_dir=str(out / "run"),
        max_steps=case.steps,
        # TRL's default, and here faster than the whole rollout at once
        per_device_train_batch_size=8,
        gradient_accumulation_steps=case.rows // 8,
        num_generations=case.group,
        max_completion_length=case.cap,
        learning_rate=LR,
        seed=seed,
        **CPU,
    )
    data = _rows(prompts, case.size)
    trainer = GRPOTrainer(str(policy), score, config, data, callbacks=[Steps(meter)], peft_config=_adapters(case))
    _watch(meter, trainer)
    trainer.train()
    meter.steps[0]["first_rollout_s"] = first[0]
    meter.write(out / "meter.json")


def run_sort6(policy: Path, prompts: Path, out: Path, seed: int) -> None:
    """GRPO until the mean reward is reached; the processor time is that of the training loop."""
    meter, rewards = Meter(), list[float]()

    def correct(completions: list[str], answer: list[str], **_: Any) -> list[float]:
        found = [float(completion == right) for completion, right in zip(completions, answer, strict=True)]
        rewards.append(sum(found) / len(found))
        return found

    class Reached(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            last = rewards[-SORT6["over"] :]
            meter.step(reward=rewards[-1])
            # it may be True already, after the last step
            control.should_training_stop |= len(last) == SORT6["over"] and sum(last) / len(last) >= SORT6["reward"]

    config = GRPOConfig(
        output_dir=str(out / "run"),
        max_steps=SORT6["steps"],
        per_device_train_batch_size=SORT6["prompts"] * SORT6["group"],
        num_generations=SORT6["group"],
        max_completion_length=SORT6["cap"],
        learning_rate=SORT6["lr"],
        adam_beta2=0.95,
        warmup_steps=SORT6["warmup"],
        epsilon=0.2,
        epsilon_high=0.28,
        seed=seed,
        **CPU | {"lr_scheduler_type": "constant_with_warmup"},
    )
    trainer = GRPOTrainer(str(policy), correct, config, _rows(prompts), callbacks=[Reached()])
    _watch(meter, trainer)
    meter.step()
    meter.steps.clear()
    trainer.train()
    meter.write(out / "meter.json")


def run_examples(case: Examples, policy: Path, examples: Path, out: Path, seed: int) -> None:
    """Supervised fine-tuning, preferences or a reward model on given texts."""
    data, meter = _rows(examples, case.size), Meter()
    common = {
        "output_dir": str(out / "run"),
        "max_steps": case.steps,
        "learning_rate": LR,
        "seed": seed,
        "per_device_train_batch_size": case.batch,
        **CPU,
    }
    length = case.prompt_tokens + case.longest
    if case.kind.startswith("sft"):
        kept = data.select_columns(["prompt", "completion"])
        packing = {"packing": True, "per_device_train_batch_size": max(1, case.batch // 2)} if case.kind == "sft_packed" else {}
        trainer: Any = SFTTrainer(str(policy), SFTConfig(**common | {"max_length": length} | packing), train_dataset=kept)
    elif case.kind == "dpo":
        kept = data.select_columns(["prompt", "chosen", "rejected"])
        trainer = DPOTrainer(str(policy), args=DPOConfig(**common, max_length=length), train_dataset=kept)
    else:
        kept = data.select_columns(["prompt", "chosen", "rejected"])
        trainer = RewardTrainer(str(policy), RewardConfig(**common, max_length=length), train_dataset=kept)
    trainer.add_callback(Steps(meter))
    _watch(meter, trainer)
    _count_tokens(meter, trainer, case)
    trainer.train()
    meter.write(out / "meter.json")


def run_logprobs(policy: Path, prompts: Path, out: Path) -> None:
    """Log-probs of completions and their gradient, by the function that GRPO's loss calls."""
    from benchmarks.speed.bench_logprobs import measured

    config = GRPOConfig(output_dir=str(out / "run"), **CPU)
    trainer = GRPOTrainer(str(policy), lambda completions, **_: [0.0] * len(completions), config, _rows(prompts))

    def loss(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # the first token has no log-prob, and rows are padded on the right
        attended = torch.ones_like(ids) * (torch.arange(ids.shape[1]) <= mask.sum(1, keepdim=True))
        found = trainer._get_per_token_logps_and_entropies(trainer.model, ids, attended, ids.shape[1] - 1, compute_entropy=True)[0]
        return torch.where(mask[:, 1:], found, 0.0).sum()

    measured(loss, trainer.model, LOGPROBS, out)


def _adapters(case: Rollouts) -> Any:
    if case.lora is None:
        return None
    from peft import LoraConfig

    # alpha as LoraPolicy has it by default
    return LoraConfig(r=case.lora, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")


def _rows(file: Path, size: str | None = None) -> Any:
    found = load_dataset("json", data_files=str(file), split="train")
    return found.map(_turns) if size == REAL else found


def _turns(row: dict[str, str]) -> dict[str, list[dict[str, str]]]:
    """A row whose texts are turns of a chat."""
    return {name: [{"role": "user" if name == "prompt" else "assistant", "content": text}] for name, text in row.items()}


def _count_tokens(meter: Meter, trainer: Any, case: Examples) -> None:
    inner = trainer.compute_loss

    def counted(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if case.in_pairs:
            meter.tokens += case.batch
        else:
            packed = inputs.get("attention_mask") is None
            meter.tokens += float(inputs["input_ids"].numel() if packed else inputs["attention_mask"].sum())
        return inner(model, inputs, *args, **kwargs)

    trainer.compute_loss = counted


def _watch(meter: Meter, trainer: Any) -> None:
    if hasattr(trainer.model, "generate"):
        meter.watch(trainer.model, "generate", "generate")
    meter.watch(trainer.model, "forward", "forward")
    meter.watch(trainer.accelerator, "backward", "backward")
    meter.watch(torch.optim.AdamW, "step", "optimizer")


def main() -> None:
    """Run one case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case")
    parser.add_argument("policy", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    name = arguments.case
    if name in ROLLOUTS:
        run_rollouts(ROLLOUTS[name], arguments.policy, arguments.data, arguments.out, arguments.seed)
    elif name in EXAMPLES:
        run_examples(EXAMPLES[name], arguments.policy, arguments.data, arguments.out, arguments.seed)
    elif name == "sort6":
        run_sort6(arguments.policy, arguments.data, arguments.out, arguments.seed)
    else:
        run_logprobs(arguments.policy, arguments.data, arguments.out)


if __name__ == "__main__":
    main()
