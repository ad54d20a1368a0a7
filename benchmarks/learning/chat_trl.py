"""TRL on a task of benchmarks/learning/chat_models.py: a run of its GRPO, and its gradient beside lightrl's on the same completions."""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from lightrl_grpo import GRPO, DrGRPO
from torch import Tensor
from torch.optim import Optimizer
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOConfig, GRPOTrainer

from benchmarks.evidence.recorded_engine import RecordedEngine
from benchmarks.learning.chat_algorithms import GROUP, LEARNING_RATE
from benchmarks.learning.chat_cells import EVALUATE_EVERY, PROMPTS, RIGHT_ABOVE, ROLLOUTS, SAMPLES, Cell, quiet_trainer
from benchmarks.learning.chat_tasks import ChatTask, Listed
from lightrl import ConstantLength, GroupNormalized, PolicyOptimization, PolicySource, PretrainedPolicy, Prompt, PromptData, TokenMean
from lightrl.algorithms.algorithm import Algorithm

STEPS = 2
"""Optimizer steps of a rollout, as `grpo` of `ALGORITHMS` makes."""
EPS = 1e-4
"""What TRL adds to the deviation of a group."""


def losses(longest: int) -> dict[str, Algorithm]:
    """The algorithms that have the loss of TRL's `loss_type` of that name.

    Args:
        longest: most tokens of a completion.
    """
    normalized = GroupNormalized(eps=EPS)
    return {
        "grpo": GRPO(kl=None, advantage=normalized),
        "bnpo": GRPO(kl=None, advantage=normalized, aggregation=TokenMean()),
        "dr_grpo": DrGRPO(aggregation=ConstantLength(length=longest)),
    }


def trl_run(task: ChatTask, seed: int, model: PolicySource, rollouts: int = ROLLOUTS) -> Cell:
    """Train by TRL's GRPO without KL, with what `chat_cells.online` gives lightrl.

    Args:
        task: what is asked, in one turn.
        seed: of data order and sampling.
        model: where the run starts.
        rollouts: how many.
    """
    seed_everything(seed, verbose=False)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        start = plain_folder(model, folder)
        measured = HeldOut(task, AutoTokenizer.from_pretrained(start), min(EVALUATE_EVERY, rollouts) * STEPS)
        rewards: list[float] = []
        options = {"max_steps": rollouts * STEPS, "steps_per_generation": STEPS, "loss_type": "grpo", "seed": seed}
        trainer = trl_trainer(task, task.train.prompts, start, Path(folder), options, measured, rewards)
        trainer.train()
    return {
        "before": measured.accuracy[0][1],
        "after": measured.accuracy[-1][1],
        "accuracy": measured.accuracy,
        "in_four": measured.in_four,
        "rollouts": [{"reward": round(reward, 5)} for reward in rewards],
        "completions": rollouts * PROMPTS * GROUP,
        "steps": trainer.state.global_step,
        "parameters": sum(weights.numel() for weights in trainer.model.parameters()),
        "seconds": round(time.perf_counter() - started, 1),
    }


def gradient_differences(task: ChatTask, seed: int, model: PolicySource) -> dict[str, float]:
    """How far the gradient of lightrl is from that of TRL on the completions that TRL has sampled, for each of `losses`.

    |g - g'| / |g'| over all parameters, in float32, before any step was made: one rollout, one step, no bound on the norm.

    Args:
        task: what is asked, in one turn.
        seed: of the prompts and of sampling.
        model: whose gradient it is.

    Raises:
        ValueError: TRL's gradient is 0, since all completions of each prompt had the same reward.
    """
    prompts = random.Random(seed).sample(task.train.prompts, PROMPTS)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        start = plain_folder(model, folder)
        for name, algorithm in losses(task.tokens).items():
            seed_everything(seed, verbose=False)
            options = {"max_steps": 1, "loss_type": name, "scale_rewards": "none" if name == "dr_grpo" else "group", "seed": seed}
            sampled: list[list[list[int]]] = []
            theirs = TheirGradient()
            trl_trainer(task, prompts, start, Path(folder), options | {"max_grad_norm": 0.0}, theirs, [], sampled).train()
            file = Path(folder) / "completions.json"
            file.write_text(json.dumps(sampled))
            ours = OurGradient()
            module = PolicyOptimization(
                policy=PretrainedPolicy(start),
                algorithm=algorithm,
                rewards={"right": task.reward},
                engine=RecordedEngine(str(file)),
                prompts_per_rollout=PROMPTS,
                max_grad_norm=None,
            )
            quiet_trainer([ours], max_epochs=1).fit(module, datamodule=PromptData(train=Listed(prompts), shuffle=False))
            if theirs.gradient.norm() == 0:
                raise ValueError(f"seed {seed}: the rewards of each group were alike, so that there is no gradient; take another seed")
            found[name] = float((ours.gradient - theirs.gradient).norm() / theirs.gradient.norm())
    return found


def plain_folder(model: PolicySource, folder: str) -> str:
    """A policy as a folder that transformers reads."""
    policy = model.build()
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    return folder


def trl_trainer(
    task: ChatTask,
    prompts: Sequence[Prompt],
    start: str,
    out: Path,
    options: dict[str, Any],
    callback: TrainerCallback,
    rewards: list[float],
    sampled: list[list[list[int]]] | None = None,
) -> GRPOTrainer:
    """TRL's trainer with AdamW at the rate of `ALGORITHMS`, in float32 on the CPU.

    Args:
        task: whose reward and longest completion it has.
        prompts: in their order, each eight times.
        start: folder of the policy.
        out: folder that the trainer may write to.
        options: of `GRPOConfig`, where runs differ.
        callback: watches the run.
        rewards: the mean of each rollout is added.
        sampled: the token ids of each rollout are added; None: they are not kept.
    """
    known = {prompt.id: prompt for prompt in prompts}

    def score(completions: Any, id: list[str], completion_ids: list[list[int]], **_: object) -> list[float]:  # noqa: A002
        texts = [completion[0]["content"] for completion in completions]
        pairs = [(known[name], text) for name, text in zip(id, texts, strict=True)]
        found = [float(task.reward.score(prompt, text, answer=prompt.answer, **prompt.columns)) for prompt, text in pairs]
        rewards.append(statistics.mean(found))
        if sampled is not None:
            sampled.append(completion_ids)
        return found

    settings: dict[str, Any] = {
        "output_dir": str(out / "run"), "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "learning_rate": LEARNING_RATE,
        "lr_scheduler_type": "constant", "weight_decay": 0.0, "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
        "num_generations": GROUP, "per_device_train_batch_size": PROMPTS * GROUP // options.get("steps_per_generation", 1),
        "max_completion_length": task.tokens, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "beta": 0.0,
        "shuffle_dataset": "steps_per_generation" in options, "logging_strategy": "no",
    }  # fmt: skip
    rows = Dataset.from_list([{"prompt": list(map(dict, prompt.messages or ())), "id": prompt.id} for prompt in prompts])
    policy, tokenizer = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32), AutoTokenizer.from_pretrained(start)
    arguments = GRPOConfig(**settings | options)
    return GRPOTrainer(policy, score, arguments, rows, processing_class=tokenizer, callbacks=[callback])


class HeldOut(TrainerCallback):
    """The accuracy on held-out prompts before the first step and every so often, by `generate` of transformers."""

    def __init__(self, task: ChatTask, tokenizer: Any, every: int) -> None:
        """
        Args:
            task: whose prompts are answered, each `SAMPLES` times at temperature 1.
            tokenizer: of the model.
            every: optimizer steps.
        """
        self.task, self.tokenizer, self.every = task, tokenizer, every
        self.accuracy: list[tuple[int, float]] = []
        self.in_four: list[float] = []

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **known: Any) -> None:
        """Measure the start."""
        self._measure(known["model"], 0)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **known: Any) -> None:
        """Measure where it is time."""
        if state.global_step % self.every == 0:
            self._measure(known["model"], state.global_step // STEPS)

    @torch.no_grad()
    def _measure(self, model: Any, rollouts: int) -> None:
        prompts, training = self.task.held_out.prompts, model.training
        texts = [self.tokenizer.apply_chat_template(prompt.messages, add_generation_prompt=True, tokenize=False) for prompt in prompts]
        rows = self.tokenizer(texts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
        limits = {"max_new_tokens": self.task.tokens, "do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        model.eval()
        ids = model.generate(**rows, **limits, num_return_sequences=SAMPLES)
        model.train(training)
        said = self.tokenizer.batch_decode(ids[:, rows["input_ids"].shape[1] :], skip_special_tokens=True)
        asked = [prompt for prompt in prompts for _ in range(SAMPLES)]
        scores = [
            self.task.reward.score(prompt, text, answer=prompt.answer, **prompt.columns) for prompt, text in zip(asked, said, strict=True)
        ]
        right = (torch.tensor(scores, dtype=torch.float64).view(-1, SAMPLES) >= RIGHT_ABOVE).double()
        self.accuracy.append((rollouts, round(float(right.mean()), 4)))
        self.in_four.append(round(float(right.amax(1).mean()), 4))


def flat_gradient(named: dict[str, Tensor]) -> Tensor:
    """All gradients in the order of their names, float64."""
    return torch.cat([named[name].double().flatten() for name in sorted(named)])


class TheirGradient(TrainerCallback):
    """Keeps the gradient of TRL's first step."""

    gradient: Tensor

    def on_pre_optimizer_step(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **known: Any) -> None:
        """Before the step that would change nothing but the weights."""
        self.gradient = flat_gradient({name: weights.grad for name, weights in known["model"].named_parameters()})


class OurGradient(Callback):
    """Keeps the gradient of the first step of lightrl."""

    gradient: Tensor

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Before the step."""
        module: Any = pl_module
        self.gradient = flat_gradient({name: weights.grad for name, weights in module.policy.model.named_parameters()})
