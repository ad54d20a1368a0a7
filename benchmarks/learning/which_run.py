"""One run of benchmarks/learning/which.py: an algorithm, a task, a learning rate and a seed."""

from __future__ import annotations

import copy
from functools import cache, partial
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything

from benchmarks.learning.chat_cells import quiet_trainer
from benchmarks.learning.which_algorithms import ALGORITHMS, Given
from benchmarks.learning.which_tasks import TASKS, Counted, SmallTask
from lightrl import (
    Function,
    LoadedPolicy,
    Policy,
    PolicyOptimization,
    PolicySource,
    PromptData,
    SupervisedFineTuning,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.training.evaluating.evaluator import Evaluation

AT_ONCE, SAMPLES = 64, 8
"""Completions that are learnt from in a rollout, and completions of each held-out prompt."""


LEARNT, FORGOTTEN = 6400, 3200
"""Rows that the policy has imitated before: right ones, and those of which some are."""


class Budget(Callback):
    """Ends a run when so many completions were drawn, whatever for."""

    def __init__(self, counted: Counted, most: int) -> None:
        self.counted, self.most, self.drawn, self.rollouts = counted, most, 0, 0

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *arguments: object) -> None:
        """Called before a rollout."""
        self._before = self.counted.calls

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *arguments: object) -> None:
        """Called after a rollout and its steps."""
        self.rollouts += 1
        self.drawn += self.counted.calls - self._before
        trainer.should_stop = self.drawn >= self.most


@cache
def start(name: str, seed: int) -> Policy:
    """A policy that has learnt what the answers are, and then to give them only now and then.

    Args:
        name: of the task.
        seed: of weights and rows.
    """
    task = TASKS[name]()
    seed_everything(seed, verbose=False)
    policy: PolicySource = TinyPolicy(hidden=32, layers=2, heads=2, alphabet=task.alphabet, seed=seed)
    for rows, known, rate in ((LEARNT, 1.0, 3e-3), (FORGOTTEN, task.known, 1e-3)):
        module = SupervisedFineTuning(policy, batch_size=64, optimizer=partial(torch.optim.AdamW, lr=rate, weight_decay=0.0))
        quiet_trainer([], max_epochs=1).fit(module, datamodule=PromptData(train=task.imitated(rows, known, seed), seed=seed))
        policy = LoadedPolicy(module.policy.model, module.policy.tokenizer)
    return module.policy


@cache
def before(name: str, seed: int) -> float:
    """The held-out score of a start."""
    return _held_out(TASKS[name](), _module(name, "GRPO", 1e-3, seed, Counted(TASKS[name]().score)), seed)


def trained(name: str, algorithm: str, rate: float, seed: int) -> dict[str, Any]:
    """Held-out scores before and after as many completions as `rollouts` of the task have.

    Args:
        name: of the task.
        algorithm: its name.
        rate: learning rate.
        seed: of start, data order and sampling.
    """
    task = TASKS[name]()
    counted = Counted(task.score)
    module, budget = _module(name, algorithm, rate, seed, counted), Budget(counted, task.rollouts * AT_ONCE)
    data = PromptData(train=task.split()[0], seed=seed)
    quiet_trainer([budget], max_epochs=10 * task.rollouts).fit(module, datamodule=data)
    after = _held_out(task, module, seed)
    return {"before": before(name, seed), "after": after, "completions": budget.drawn, "rollouts": budget.rollouts}


def _module(name: str, algorithm: str, rate: float, seed: int, counted: Counted) -> PolicyOptimization:
    task, begun = TASKS[name](), copy.deepcopy(start(name, seed))
    seed_everything(seed, verbose=False)
    learnt_from = {"judge": Function.of(task.judge)} if task.judge else {}
    rewards = {"right": Function.of(counted, weight=float(not learnt_from and not task.several)), **learnt_from}
    metric = "environment" if task.several else next(iter(learnt_from), None)
    made = ALGORITHMS[algorithm](Given(task.longest, metric, {"epochs": task.epochs, "minibatches": task.minibatches}))
    return PolicyOptimization(
        policy=LoadedPolicy(begun.model, begun.tokenizer),
        algorithm=made,
        rewards=rewards,
        engine=TransformersEngine(max_new_tokens=task.tokens, stop=list(task.stop) or None, seed=seed),
        environment=task.environment(),
        prompts_per_rollout=AT_ONCE // int(getattr(made.sampler, "group_size", 1)),
        micro_batch_tokens=8192,
        optimizer=partial(torch.optim.AdamW, lr=rate, weight_decay=0.0),
        evaluation=Evaluation(samples=SAMPLES),
        seed=seed,
    )


def _held_out(task: SmallTask, module: PolicyOptimization, seed: int) -> float:
    train, held_out = task.split()
    (metrics,) = quiet_trainer([]).validate(module, datamodule=PromptData(train=train, validation=held_out, seed=seed), verbose=False)
    return float(metrics["val/reward" if task.several else "val/rewards/right/mean"])
