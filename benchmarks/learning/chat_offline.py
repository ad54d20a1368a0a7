"""The runs of benchmarks/learning/chat_models.py on given rows: SFT with DPO after it, a reward model, and the calculator's warm start."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from lightrl_preference import DPO

from benchmarks.learning.chat_algorithms import LEARNING_RATE
from benchmarks.learning.chat_cells import RIGHT_ABOVE, SAMPLES, Cell, Notes, quiet_trainer
from benchmarks.learning.chat_tasks import TEMPLATE, ChatTask, Listed, calculator, source_of, sums
from lightrl import (
    LoadedPolicy,
    PolicySource,
    PreferenceOptimization,
    PretrainedPolicy,
    Prompt,
    PromptData,
    RewardModeling,
    SupervisedFineTuning,
    TransformersEngine,
)
from lightrl.callbacks.export_policy import ExportPolicy
from lightrl.training.evaluating.evaluator import Evaluation

BATCH = 6
"""Prompts of an optimizer step."""
WRONG = 3
"""Wrong answers beside each right one, for the reward model."""


def sft_dpo(seed: int, model: PolicySource, steps: int = 10) -> Cell:
    """Supervised fine-tuning on right sums, then DPO from there, whose rejected answers are near the sum.

    Args:
        seed: of data order, wrong answers and sampling.
        model: where SFT starts.
        steps: optimizer steps of SFT, and as many of DPO.
    """
    seed_everything(seed, verbose=False)
    task, started, draw = sums(), time.perf_counter(), random.Random(seed)
    measured: dict[str, Any] = {
        "rewards": {"right": task.reward},
        "engine": TransformersEngine(max_new_tokens=task.tokens, seed=seed),
        "evaluation": Evaluation(samples=SAMPLES, right_above=RIGHT_ABOVE),
    }
    sft = SupervisedFineTuning(model, batch_size=BATCH, optimizer=_adamw(LEARNING_RATE), **measured)
    of_sft = Notes()
    _fitted(sft, of_sft, task.train, task.held_out, seed, steps)
    start = LoadedPolicy(sft.policy.model, sft.policy.tokenizer)
    dpo = PreferenceOptimization(start, DPO(beta=0.1), batch_size=BATCH, optimizer=_adamw(LEARNING_RATE / 2), **measured)
    paired = [Listed([_paired(prompt, draw) for prompt in part.prompts]) for part in (task.train, task.held_out)]
    of_dpo, ordered = Notes(), Logged("val/rewards/accuracies")
    _fitted(dpo, of_dpo, *paired, seed, steps, ordered)
    return {
        "before": of_sft.accuracy[0][1],
        "after_sft": of_dpo.accuracy[0][1],
        "after": of_dpo.accuracy[-1][1],
        "ordered": ordered.values[-1],
        "accuracy": [[0, of_sft.accuracy[0][1]], [steps, of_dpo.accuracy[0][1]], [2 * steps, of_dpo.accuracy[-1][1]]],
        "in_four": [of_sft.in_four[0], of_dpo.in_four[0], of_dpo.in_four[-1]],
        "steps": 2 * steps,
        "parameters": sum(weights.numel() for weights in dpo.policy.parameters()),
        "seconds": round(time.perf_counter() - started, 1),
    }


def reward_model(seed: int, model: PolicySource, steps: int = 31) -> Cell:
    """A reward model on right and wrong sums; the accuracy is that on the comparisons of held-out sums.

    Args:
        seed: of the head, data order and wrong answers.
        model: whose trunk it gets.
        steps: optimizer steps; 31 are three passes.
    """
    seed_everything(seed, verbose=False)
    task, started, draw = sums(), time.perf_counter(), random.Random(seed)
    parts = [Listed([_ranked(prompt, draw) for prompt in part.prompts]) for part in (task.train, task.held_out)]
    module = RewardModeling(model, batch_size=BATCH, centring=0.01, micro_batch_tokens=1024, optimizer=_adamw(LEARNING_RATE))
    data, logged = PromptData(train=parts[0], validation=parts[1], seed=seed), Logged("val/accuracy")
    trainer = quiet_trainer([logged], max_steps=steps, val_check_interval=max(1, min(10, steps)), check_val_every_n_epoch=None)
    trainer.validate(module, datamodule=data, verbose=False)
    trainer.fit(module, datamodule=data)
    trainer.validate(module, datamodule=data, verbose=False)
    held_out = list(zip(logged.steps, logged.values, strict=True))
    # what it was trained on, to tell what was learnt by heart from what was not learnt
    trainer.validate(module, datamodule=PromptData(train=parts[1], validation=parts[0], seed=seed), verbose=False)
    return {
        "before": held_out[0][1],
        "after": held_out[-1][1],
        "after_trained": logged.values[-1],
        "accuracy": held_out,
        "losses": logged.losses,
        "steps": steps,
        "seconds": round(time.perf_counter() - started, 1),
    }


OFFLINE_RUNS: dict[str, Callable[..., Cell]] = {"sft_dpo": sft_dpo, "reward_model": reward_model}
CALLED, CALLED_RIGHT, ROWS = 0.25, 0.5, 160
"""The share of prompts that the warm start answers by a call, the share of those calls that have the right numbers, and its rows."""


def calculator_start(model: PolicySource, folder: Path, rows: int = ROWS) -> PolicySource:
    """The policy that runs with the calculator start from, made once for all of them and kept in a folder.

    It has seen how a call is written and how a result is repeated. Most prompts were answered by a random number, and half of the calls
    had a wrong digit.

    Args:
        model: where it starts.
        folder: where it is kept.
        rows: it learns from.
    """
    if not folder.exists():
        seed_everything(0, verbose=False)
        source = source_of(model, TEMPLATE)
        module = SupervisedFineTuning(source, batch_size=8, optimizer=_adamw(2 * LEARNING_RATE))
        train = Listed(start_rows(calculator(), source.tokenizer(), rows, random.Random(0)))
        trainer = quiet_trainer([ExportPolicy(str(folder))], max_epochs=1)
        trainer.fit(module, datamodule=PromptData(train=train, seed=0))
    return PretrainedPolicy(str(folder))


def start_rows(task: ChatTask, tokenizer: Any, count: int, draw: random.Random) -> list[Prompt]:
    """What the warm start imitates: a first turn, or the turn after a call.

    Args:
        task: the calculator, none of whose held-out sums is used.
        tokenizer: with the template that shows tools.
        count: rows.
        draw: random numbers.
    """
    show = partial(tokenizer.apply_chat_template, tools=list(task.environment.tools), tokenize=False, add_generation_prompt=True)
    made = []
    for number in range(count):
        prompt = draw.choice(task.train.prompts)
        a, b = map(int, prompt.id.split(" + "))
        x, y = (a, b) if draw.random() < CALLED_RIGHT else draw.choice([(_other_digit(a, draw), b), (a, _other_digit(b, draw))])
        call = f"[add({x}, {y})]"
        if number % 2:
            turns = ({"role": "assistant", "content": call}, {"role": "tool", "content": str(x + y)})
            said, answer = (*(prompt.messages or ()), *turns), str(x + y)
        else:
            said, answer = prompt.messages or (), call if draw.random() < CALLED else str(draw.randrange(20, 199))
        made.append(Prompt(id=f"{number}", text=show([dict(message) for message in said]), answer=answer, rendered=True))
    return made


class Logged(Callback):
    """Keeps a number of every evaluation, and the loss of every step."""

    def __init__(self, name: str) -> None:
        """
        Args:
            name: that it is logged under.
        """
        self.name, self.steps, self.values, self.losses = name, list[int](), list[float](), list[float]()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *arguments: object) -> None:
        """Called after each step."""
        self.losses.append(round(float(trainer.callback_metrics["loss"]), 4))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Called after each of them."""
        self.steps.append(trainer.global_step)
        self.values.append(round(float(trainer.callback_metrics[self.name]), 4))
        print(f"  {self.name} after {trainer.global_step} steps: {self.values[-1]:.3f}", flush=True)  # noqa: T201


def _fitted(module: Any, notes: Notes, train: Listed, held_out: Listed, seed: int, steps: int, *callbacks: Callback) -> None:
    """Train for so many steps, with an evaluation before them and one after."""
    trainer = quiet_trainer([notes, *callbacks], max_steps=steps, val_check_interval=steps, check_val_every_n_epoch=None)
    trainer.fit(module, datamodule=PromptData(train=train, validation=held_out, seed=seed))


def _adamw(rate: float) -> Any:
    return partial(torch.optim.AdamW, lr=rate, weight_decay=0.0)


def _wrong(answer: str, count: int, draw: random.Random) -> list[str]:
    """Different numbers near a sum, and not below 0."""
    near = [int(answer) + off for off in (-3, -2, -1, 1, 2, 3) if int(answer) + off >= 0]
    return [str(number) for number in draw.sample(near, count)]


def _paired(prompt: Prompt, draw: random.Random) -> Prompt:
    columns = {"chosen": prompt.answer, "rejected": _wrong(prompt.answer, 1, draw)[0]}
    return Prompt(id=prompt.id, messages=prompt.messages, answer=prompt.answer, columns=columns)


def _ranked(prompt: Prompt, draw: random.Random) -> Prompt:
    columns = {"completions": [prompt.answer, *_wrong(prompt.answer, WRONG, draw)], "scores": [1, *[0] * WRONG]}
    return Prompt(id=prompt.id, messages=prompt.messages, answer=None, columns=columns)


def _other_digit(number: int, draw: random.Random) -> int:
    """Another number of two digits, which differs in one of them."""
    tens, ones = divmod(number, 10)
    if draw.random() < 0.5:
        return 10 * draw.choice([digit for digit in range(1, 10) if digit != tens]) + ones
    return 10 * tens + draw.choice([digit for digit in range(10) if digit != ones])
