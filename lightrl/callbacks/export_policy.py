"""Writes the trained policy as a Hugging Face folder at the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from lightrl.policy.policy import Policy
from lightrl.policy.standing_weights import standing_weights
from lightrl.strategies.atomic import partial, publish

if TYPE_CHECKING:
    from lightrl.training.policy_module import PolicyModule


class ExportPolicy(Callback):
    """Saves weights, config, tokenizer and chat template where `PretrainedPolicy` and transformers can read them.

    Adapters are added to the weights of their base.
    """

    def __init__(self, folder: str | None = None) -> None:
        """
        Args:
            folder: where to write; null: `policy` in the folder of the run's log.
        """
        self.folder = folder

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the folder on the first rank and say where it is."""
        module: Any = pl_module
        # on every rank, since log_dir broadcasts
        folder = Path(self.folder or Path(trainer.log_dir or ".") / "policy")
        with module.adapter.gathered_weights():
            if trainer.is_global_zero:
                write_policy(_to_export(module), folder)
                module.print(f"Policy written to {folder}")


def write_policy(policy: Policy, folder: Path, dtype: torch.dtype | None = None, card: str | None = None) -> None:
    """Write a policy's folder, which appears when it is complete.

    Args:
        policy: with merged adapters, for a model; with adapters, for these alone.
        folder: its place; what is there is replaced.
        dtype: that weights are rounded to; None leaves them.
        card: text of its README.md.
    """
    if dtype is not None:
        policy.model.to(dtype)
    folder.parent.mkdir(parents=True, exist_ok=True)
    place = partial(folder)
    policy.save(place)
    if card is not None:
        (place / "README.md").write_text(card)
    publish(place, folder)


def _to_export(module: PolicyModule) -> Policy:
    """The policy itself, or a copy with its adapters merged: training may go on with those."""
    if not hasattr(module.policy, "base"):
        return module.policy
    copy = module.policy_source.build()
    trained = standing_weights(module.policy)
    copy.load_state_dict({name: trained[name] for name in copy.state_dict()})
    return copy.merged()
