"""The contract of every callback."""

from __future__ import annotations

import tempfile

import torch
from lightning.pytorch import Callback

from lightrl import DigitSorting, Function, GroupRelative, GroupSampler, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine
from lightrl_workshop.checks.check import Make, contract_check, expect
from lightrl_workshop.trainer import quiet_trainer

KIND = "callback"


@contract_check(KIND, "a run with it goes to its end")
def runs(make: Make[Callback]) -> None:
    torch.manual_seed(0)
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4)),
        rewards={"digits": Function("lightrl_workshop.toy.small_digits", runs="inline")},
        engine=TransformersEngine(max_new_tokens=4),
        prompts_per_rollout=4,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = quiet_trainer(callbacks=[make()], max_epochs=2, default_root_dir=folder)
        trainer.fit(module, datamodule=PromptData(train=DigitSorting(length=3, examples=20)))
    expect(trainer.global_step > 0, "the run made no optimizer step")


@contract_check(KIND, "it is saved under a name of its own")
def saved(make: Make[Callback]) -> None:
    """Callbacks whose state has the same key replace each other's in a checkpoint."""
    callback = make()
    expect(type(callback).__name__ in callback.state_key, f"state_key does not name the class: {callback.state_key!r}")
