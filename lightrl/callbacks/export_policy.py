"""Writes the trained policy or reward model as a Hugging Face folder at the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from lightrl.callbacks.run_folder import run_folder
from lightrl.policy.policy import Policy
from lightrl.policy.weights import TrainerWeights
from lightrl.strategies.atomic import beside, partial, publish


class ExportPolicy(Callback):
    """Saves weights, config, tokenizer and chat template where `PretrainedPolicy` and transformers can read them.

    Adapters are added to the weights of their base.
    """

    name = "policy"

    def __init__(self, folder: str | None = None) -> None:
        """
        Args:
            folder: where to write; null: `policy`, or `reward_model`, in the folder of the run's log.
        """
        self.folder = folder

    def place(self, trainer: Trainer) -> Path:
        """The folder; every rank asks for it, since a log's folder is broadcast."""
        return Path(self.folder or (run_folder(trainer) or Path()) / self.name).expanduser()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the folder on the first rank and say where it is."""
        module: Any = pl_module
        folder = self.place(trainer)
        weights, place = TrainerWeights(module.policy, module.learner.adapter), beside(folder, "partial")
        weights.on_first_rank(lambda: _make_room(folder))
        weights.save(place)
        weights.on_first_rank(lambda: publish(place, folder))
        module.print(f"Policy written to {folder}")


class ExportRewardModel(ExportPolicy):
    """Saves weights, head, tokenizer and chat template where the reward `RewardModel` and the critic `ValueModel` can read them."""

    name = "reward_model"

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the folder on the first rank and say where it is."""
        module: Any = pl_module
        folder = self.place(trainer)
        with module.learner.adapter.gathered_weights():
            if trainer.is_global_zero:
                write_policy(module.policy, folder)
                module.print(f"Reward model written to {folder}")


def write_policy(policy: Policy, folder: Path, dtype: torch.dtype | None = None, card: str | None = None) -> None:
    """Write a policy's folder, which replaces what is there when it is complete: merged, for a model; with adapters, for these alone."""
    if dtype is not None:
        policy.model.to(dtype)
    place = _make_room(folder)
    policy.save(place)
    if card is not None:
        (place / "README.md").write_text(card)
    publish(place, folder)


def _make_room(folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    return partial(folder)
