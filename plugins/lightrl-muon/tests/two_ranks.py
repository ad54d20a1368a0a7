"""Fine-tunes a tiny policy by MuonAdamW for three steps: `python two_ranks.py STRATEGY DEVICES POLICY WEIGHTS`."""

from __future__ import annotations

import sys
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightrl_muon import MuonAdamW
from lightrl_workshop import quiet_trainer

from lightrl import DigitSorting, PretrainedPolicy, PromptData, SupervisedFineTuning


class Final(Callback):
    """Writes the gathered weights."""

    def __init__(self, file: str) -> None:
        self.file = file

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        with pl_module.learner.adapter.gathered_weights():
            weights = {name: p.detach().clone() for name, p in pl_module.policy.model.named_parameters()}
        if trainer.is_global_zero:
            torch.save(weights, self.file)


if __name__ == "__main__":
    torch.set_num_threads(1)
    strategy, devices, policy, weights = sys.argv[1:]
    module = SupervisedFineTuning(PretrainedPolicy(policy), batch_size=8, optimizer=lambda groups: MuonAdamW(groups, lr=1e-2))
    trainer = quiet_trainer(strategy=strategy, devices=int(devices), max_steps=3, callbacks=[Final(weights)])
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=64)))
