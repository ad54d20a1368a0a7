"""The table of sizes at the start of a run: prompts, rows, steps and tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.table import Table

from lightrl.training.setup.optimizer_checks import schedule_length

if TYPE_CHECKING:
    from lightrl.training.online.policy_optimization import PolicyOptimization


class SizesTable(Callback):
    """Prints prompts x group = rows, optimizer steps and tokens before the first rollout."""

    in_every_run = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the table on the first rank."""
        if trainer.is_global_zero and hasattr(pl_module, "algorithm"):
            module: Any = pl_module
            Console(stderr=True).print(sizes_table(module, trainer.max_epochs, trainer.world_size, schedule_length(module.lr_schedulers())))


def sizes_table(module: PolicyOptimization, rollouts: int | None, ranks: int = 1, schedule: int | None = None) -> Table:
    """The sizes of one rollout and of the whole run.

    Args:
        module: a `PolicyOptimization`.
        rollouts: of the whole run; None or -1: until stopped.
        ranks: processes that share a rollout.
        schedule: steps of the learning-rate schedule; None: it has no end.
    """
    algorithm, prompts = module.algorithm, module.collector.prompts_per_rollout
    group, steps = algorithm.sampler.group_size, algorithm.steps_per_rollout
    rows, new = prompts * group, module.collector.engine.sampling.max_new_tokens
    many = None if rollouts is None or rollouts < 0 else rollouts
    table = Table(title=f"{type(algorithm).__name__}: one rollout", title_justify="left", show_header=False, box=None)
    lines = {
        "prompts x group = rows": f"{prompts} x {group} = {rows}" + (f" ({rows // ranks} on each of {ranks} ranks)" if ranks > 1 else ""),
        "epochs x minibatches = optimizer steps": f"{algorithm.epochs} x {algorithm.minibatches} = {steps}",
        "rows per optimizer step": f"{prompts // algorithm.minibatches * group}",
        "new tokens of these rows, at most": f"{rows} x {new} = {rows * new:,}",
        "tokens per micro-batch": str(module.learner.budget),
        "rollouts": "until stopped" if many is None else f"{many} ({many * steps:,} optimizer steps, {many * rows:,} completions)",
    }
    planned = (many or 0) * module.steps_per_batch
    if schedule is not None and planned and schedule > planned:
        lines["learning-rate schedule"] = f"{schedule:,} steps, of which the run makes {planned:,}: the rate does not fall to its end"
    if hasattr(module, "policy"):
        lines["trainable parameters"] = trained_of(module.policy)
    for name, value in lines.items():
        table.add_row(name, value)
    return table


def trained_of(policy: torch.nn.Module) -> str:
    """The number of a policy's parameters that are trained, counted in full also where a strategy has cut them."""
    sizes = [(getattr(p, "ds_numel", p.numel()), p.requires_grad) for p in policy.parameters()]
    trained, total = sum(size for size, learns in sizes if learns), sum(size for size, _ in sizes)
    return f"{trained:,} of {total:,} ({100 * trained / total:.3g}%)"
