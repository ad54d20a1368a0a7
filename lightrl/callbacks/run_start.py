"""The start of a run: its sizes (prompts, rows, steps, tokens), and the checks of their contracts that its parts do not keep."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.table import Table

from lightrl.algorithms.algorithm import Algorithm
from lightrl.parts.base import Part
from lightrl.training.online.policy_optimization import PolicyOptimization
from lightrl.training.policy_module import PolicyModule
from lightrl.training.setup.optimizer_checks import schedule_length


class SizesTable(Callback):
    """Prints prompts x group = rows, optimizer steps and tokens before the first rollout."""

    in_every_run = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the table on the first rank."""
        if trainer.is_global_zero and isinstance(pl_module, PolicyOptimization):
            schedule = schedule_length(pl_module.lr_schedulers())
            Console(stderr=True).print(sizes_table(pl_module, trainer.max_epochs, trainer.world_size, schedule))


def sizes_table(module: PolicyOptimization, rollouts: int | None, ranks: int = 1, schedule: int | None = None) -> Table:
    """The sizes of one rollout and of the whole run, which without `rollouts` ends when it is stopped."""
    algorithm, prompts = module.algorithm, module.collector.prompts_per_rollout
    group, steps = algorithm.sampler.group_size, algorithm.steps_per_rollout
    per_step = prompts // algorithm.minibatches * group if algorithm.minibatch_of == "groups" else prompts * group // algorithm.minibatches
    rows, new = prompts * group, module.collector.engine.sampling.max_new_tokens
    turns = module.collector.environment.max_turns
    many = None if rollouts is None or rollouts < 0 else rollouts
    table = Table(title=f"{type(algorithm).__name__}: one rollout", title_justify="left", show_header=False, box=None)
    lines = {
        "prompts x group = rows": f"{prompts} x {group} = {rows}" + (f" ({rows // ranks} on each of {ranks} ranks)" if ranks > 1 else ""),
        "epochs x minibatches = optimizer steps": f"{algorithm.epochs} x {algorithm.minibatches} = {steps}",
        "rows per optimizer step": f"{per_step}",
        "new tokens of these rows, at most": f"{rows} x {new}{f' x {turns} turns' if turns > 1 else ''} = {rows * new * turns:,}",
        "tokens per micro-batch": str(module.learner.budget),
        "rollouts": "until stopped" if many is None else f"{many} ({many * steps:,} optimizer steps, {many * rows:,} completions)",
    }
    planned = (many or 0) * module.steps_per_batch
    if schedule is not None and planned and schedule > planned:
        lines["learning-rate schedule"] = f"{schedule:,} steps, of which the run makes {planned:,}: the rate does not reach its end"
    if hasattr(module, "policy"):
        # counted in full also where a strategy has cut them
        sizes = [(getattr(p, "ds_numel", p.numel()), p.requires_grad) for p in module.policy.parameters()]
        trained, total = sum(size for size, learns in sizes if learns), sum(size for size, _ in sizes)
        lines["trainable parameters"] = f"{trained:,} of {total:,} ({100 * trained / total:.3g}%)"
    for name, value in lines.items():
        table.add_row(name, value)
    return table


class StatedExceptions(Callback):
    """Prints a line for each exception from its contract that a class of the run states."""

    in_every_run = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print them on the first rank."""
        if trainer.is_global_zero:
            sys.stderr.writelines(f"{line}\n" for line in exceptions_of(pl_module))


def exceptions_of(module: LightningModule) -> list[str]:
    """A line for each exception from its contract that a class among the parts of a module states."""
    named: dict[str, object] = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    if isinstance(module, PolicyModule):
        collector = module.collector
        named = {"engine": collector.engine, "environment": collector.environment, "policy": collector.learner.source, **named}
        named["rewards"] = {} if collector.rewards is None else collector.rewards.rewards
    classes = dict.fromkeys(type(part) for part in _parts(list(named.values())))
    return [
        f"{cls.__name__} does not keep a check of its contract, '{title}': {reason}"
        for cls in classes
        if issubclass(cls, Part)
        for title, reason in cls.exceptions.items()
    ]


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, (Part, Algorithm)):
        yield value
        value = vars(value)
    for member in list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ():
        yield from _parts(member)
