"""`lightrl check`: the parts, sizes and memory of a run; nothing is trained."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightrl.algorithms.declaration import slots_of
from lightrl.config.build.checkpoints import with_checkpoint
from lightrl.config.describe.choice import Choice, shown
from lightrl.config.merge.resolve import Resolved, print_notes, resolve
from lightrl.config.read.import_paths import import_paths
from lightrl.config.read.settings import Request, read_words
from lightrl.parts.reference import BaseReference, FrozenReference
from lightrl.strategies.disk import in_words
from lightrl.training.setup.optimizer_checks import check_schedule, planned_steps, schedule_length

if TYPE_CHECKING:
    from lightrl.config.build.run import Run
    from lightrl.training.policy_module import PolicyModule


def check(words: list[str]) -> int:
    """Resolve a config as `fit` would, build its parts, and print them; with `--no-import` only list the import paths in it."""
    if "--no-import" in words:
        return list_import_paths(read_words([word for word in words if word != "--no-import"]))
    from lightrl.callbacks.run_start import exceptions_of
    from lightrl.config.build.run import Run

    request = read_words(words)
    resolved = with_checkpoint(request, resolve("fit", request))
    # Lightning's lines about the hardware are no part of the answer
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)
    logging.getLogger("lightning.fabric.utilities.seed").setLevel(logging.WARNING)
    run = Run("fit", resolved)
    console = Console(soft_wrap=True)
    with run.refusals():
        run.prepare()
        length = _schedule(run)
        counts = {name: "endless" if n is None else f"{n:,} prompts" for name, n in run.data.sizes().items()}
        tables = [*_sections(resolved), *_sizes(run, resolved, length), _table("data", counts), _memory(run.model, resolved)]
    # a refusal stands alone
    print_notes(resolved.notes)
    for table in tables:
        console.print(table)
    for line in exceptions_of(run.model):
        console.print(line, markup=False, highlight=False)
    console.print(f"{NOT_COUNTED}\nThe config can be run: lightrl fit {' '.join(words)}", markup=False, highlight=False)
    return 0


def list_import_paths(request: Request) -> int:
    """Print the code that a command names beside the registered classes, without importing it."""
    found = import_paths(request)
    for one in found:
        sys.stdout.write(f"{one}\n")
    said = "would be imported by fit, check and the other verbs; none has been" if found else "no code beside that of installed packages"
    sys.stdout.write(f"{len(found)} import paths: {said}. See docs/trust.md\n")
    return 0


def _sections(resolved: Resolved) -> list[Table]:
    model = resolved.model
    tables = [_algorithm_table(model.value("algorithm"))] if "algorithm" in model.takes else []
    if rewards := model.value("rewards") if "rewards" in model.takes else None:
        weights = {name: f", weight {choice.value('weight'):g}" if "weight" in choice.takes else "" for name, choice in rewards.items()}
        tables.append(_table("rewards", {name: f"{choice}{weights[name]}" for name, choice in rewards.items()}))
    rest = {name: shown(model.value(name)) for name in model.takes if name not in ("algorithm", "rewards")}
    return [*tables, _table(f"{model.cls.__name__}: other settings", rest)]


def _algorithm_table(algorithm: Choice) -> Table:
    table = Table("slot", "part", "arguments", title=f"algorithm: {algorithm.cls.__name__}", title_justify="left")
    for name in algorithm.takes:
        part = algorithm.value(name)
        if isinstance(part, Choice):
            table.add_row(name, part.cls.__name__, Text(", ".join(f"{n}={shown(part.value(n))}" for n in part.takes)))
        else:
            table.add_row(name, "-" if name in slots_of(algorithm.cls) else Text(shown(part)), "")
    return table


def _sizes(run: Run, resolved: Resolved, schedule: int | None) -> list[Table]:
    from lightrl.callbacks.run_start import sizes_table

    module = run.model
    if module.makes_rollouts:
        return [sizes_table(module, resolved.rollouts.epochs, schedule=schedule)]
    rows = {"rows per optimizer step": f"{module.batch_size:,}"}
    per_epoch, steps = module.steps_per_epoch(run.data.sizes()["train"]), _planned(run)
    total = "until stopped" if math.isinf(steps) else f"{int(steps):,} ({steps / per_epoch:.3g} passes over the data)"
    rows |= {"optimizer steps per pass over the data": f"{per_epoch:,}", "optimizer steps": total}
    if schedule is not None and schedule > steps:
        rows["learning-rate schedule"] = f"{schedule:,} steps, of which the run makes {int(steps):,}: the rate does not reach its end"
    return [_table("length", rows)]


def _schedule(run: Run) -> int | None:
    """The length of the schedule; a short one is refused."""
    schedule = run.model.learner.tried_schedule()
    check_schedule(schedule, _planned(run))
    return schedule_length(schedule)


def _planned(run: Run) -> float:
    return planned_steps(run.trainer, run.model.steps_per_epoch(run.data.sizes()["train"]), run.model.steps_per_batch)


def _memory(module: PolicyModule, resolved: Resolved) -> Table:
    source = module.learner.source
    parameters, trainable = source.parameters(), source.trainable()
    learns_by = getattr(module, "algorithm", getattr(module, "objective", None))
    reference = learns_by is not None and "ref_logprobs" in learns_by.needs
    if trainable < parameters and reference:
        # a base with its adapters off is a reference of its own
        anchor = getattr(module, "reference", None) or getattr(learns_by, "reference", None)
        reference = not isinstance(anchor, BaseReference) and type(anchor) is not FrozenReference
    optimizer: Choice = resolved.model.value("optimizer")
    momentum = float(optimizer.value("momentum") or 0) if "momentum" in optimizer.takes else 0.0
    held = estimate(parameters, trainable, getattr(source, "dtype", "float32"), optimizer.cls.__name__, momentum, reference)
    rows = {what: f"{in_words(size)} ({count:,} parameters)" for what, (count, size) in held.items()}
    algorithm = getattr(module, "algorithm", None)
    if algorithm is not None:
        others = {"critic": algorithm.critic} | {slot: part for slot, part in algorithm.references.items() if not part.starts_as_policy}
        rows |= {slot: f"{type(part).__name__}: not counted" for slot, part in others.items() if part is not None}
    return _table("memory of models on one device, estimated", rows | {"sum": in_words(sum(size for _, size in held.values()))})


def _table(title: str, rows: Mapping[str, str]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table


BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes per number."""

NOT_COUNTED = "Not counted: activations, keys and values while generating, CUDA's own, and what a strategy shards or copies."
"""The memory that the estimate leaves out."""

_STATES = {"AdamW": 2, "Adam": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "SGD": 0, "Adagrad": 1, "RMSprop": 1, "Adadelta": 2}


def estimate(parameters: int, trainable: int, dtype: str, optimizer: str, momentum: float, reference: bool) -> dict[str, tuple[int, int]]:
    """Parameters and bytes of weights, gradients, optimizer states and reference, whose numbers are of `dtype`.

    SGD with momentum keeps one state per parameter, and an optimizer that is not known is counted as AdamW.
    """
    states = 1 if optimizer == "SGD" and momentum else _STATES.get(optimizer, 2)
    width = BYTES.get(dtype, BYTES["float32"])
    held = {
        "policy: weights": (parameters, 1),
        "policy: gradients": (trainable, 1),
        f"policy: {optimizer} states": (trainable, states),
        "reference: weights": (parameters, int(reference)),
    }
    return {what: (numbers, copies * numbers * width) for what, (numbers, copies) in held.items() if copies}
