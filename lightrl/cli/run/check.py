"""`lightrl check`: the parts, sizes and memory of a run; nothing is trained."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Iterator, Mapping
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
        schedule = run.model.learner.tried_schedule()
        check_schedule(schedule, _planned(run))
        length = schedule_length(schedule)
        counts = {name: "endless" if n is None else f"{n:,} prompts" for name, n in run.data.sizes().items()}
        held = _held(run.model, resolved)
        models = [_memory(run.model, held), _table("checkpoints", _checkpoints(run, held))]
        tables = [*_sections(resolved), *_sizes(run, resolved, length), _table("data", counts), *models]
    # a refusal stands alone
    print_notes(resolved.notes)
    for table in tables:
        console.print(table)
    for line in [*exceptions_of(run.model), *_too_little(run, resolved)]:
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


def _planned(run: Run) -> float:
    return planned_steps(run.trainer, run.model.steps_per_epoch(run.data.sizes()["train"]), run.model.steps_per_batch)


def _held(module: PolicyModule, resolved: Resolved) -> Held:
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
    return estimate(parameters, trainable, getattr(source, "dtype", "float32"), optimizer.cls.__name__, momentum, reference)


def _memory(module: PolicyModule, held: Held) -> Table:
    rows = {what: f"{in_words(size)} ({count:,} parameters)" for what, (count, size) in held.items()}
    algorithm = getattr(module, "algorithm", None)
    if algorithm is not None:
        others = {"critic": algorithm.critic} | {slot: part for slot, part in algorithm.references.items() if not part.starts_as_policy}
        rows |= {slot: f"{type(part).__name__}: not counted" for slot, part in others.items() if part is not None}
    return _table("memory of models on one device, estimated", rows | {"sum": in_words(sum(size for _, size in held.values()))})


def _checkpoints(run: Run, held: Held) -> dict[str, str]:
    """The bytes of a checkpoint, and how many are kept; adapters are written without their base."""
    from lightning.pytorch.callbacks import ModelCheckpoint

    from lightrl.callbacks.run_checkpoints import RunCheckpoints

    numbers, size = held["policy: weights"]
    weights = size * held["policy: gradients"][0] // numbers
    optimizer = sum(size for what, (_, size) in held.items() if what.endswith(("states", "copies")))
    found = {}
    for saver in run.trainer.checkpoint_callbacks:
        if not isinstance(saver, (RunCheckpoints, ModelCheckpoint)):
            continue
        size = weights if saver.save_weights_only else weights + optimizer
        less = "which RunCheckpoints among trainer.callbacks leaves out with save_weights_only: true"
        rest = "no run goes on from it" if saver.save_weights_only else f"optimizer {in_words(optimizer)}, {less}"
        found["each, about"] = f"{in_words(size)} (weights {in_words(weights)}; {rest})"
        if isinstance(saver, RunCheckpoints):
            best = bool(run.data.sizes().get("validation"))
            found["kept"] = f"the last {saver.keep}{' and the best' if best else ''}: {in_words((saver.keep + best) * size)} at most"
        else:
            found["kept"] = f"as ModelCheckpoint says: save_top_k {saver.save_top_k}, save_last {saver.save_last}"
    return found or {"kept": "none is written"}


def _too_little(run: Run, resolved: Resolved) -> Iterator[str]:
    """A line for each number with which a run can hardly teach a policy anything."""
    steps, rollouts = _planned(run), resolved.rollouts.epochs
    if run.model.makes_rollouts and rollouts is not None and 0 < rollouts < FEWEST_ROLLOUTS:
        yield f"too little: {rollouts} rollouts; what fewer than {FEWEST_ROLLOUTS} teach is seldom seen. Type for example: --rollouts 100"
    rate, key = 0.0, ""
    # a schedule that has a largest rate of its own overrules the optimizer's
    for section, name in (("optimizer", "lr"), ("lr_scheduler", "max_lr")):
        choice = resolved.model.value(section)
        given = choice.value(name) if isinstance(choice, Choice) and name in choice.takes else None
        if isinstance(given, (int, float, list)):
            rate, key = max(given) if isinstance(given, list) else given, f"--model.{section}.{name}"
    if 0 < rate * steps < LEAST_MOVE:
        yield (
            f"too little: a rate of {rate:g} moves a weight by about {rate * steps:.1g} in {int(steps):,} optimizer steps, and less than "
            f"{LEAST_MOVE:g} changes hardly an answer. Type for example: {key} {LEAST_MOVE:g}, or give more "
            + ("--rollouts" if run.model.makes_rollouts else "--trainer.max_steps")
        )


def _table(title: str, rows: Mapping[str, str]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table


BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes per number."""

FEWEST_ROLLOUTS = 10
"""Rollouts after which a small policy was seen to have learnt something."""

LEAST_MOVE = 1e-5
"""What a weight moves, at most, in a run whose answers stay nearly as they were: AdamW moves it by the learning rate in a step."""

NOT_COUNTED = "Not counted: activations, keys and values while generating, CUDA's own, and what a strategy shards or copies."
"""The memory that the estimate leaves out."""

_STATES = {"AdamW": 2, "Adam": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "SGD": 0, "Adagrad": 1, "RMSprop": 1, "Adadelta": 2}


Held = dict[str, tuple[int, int]]
"""Numbers and bytes of what a run holds, by its title."""


def estimate(parameters: int, trainable: int, dtype: str, optimizer: str, momentum: float, reference: bool) -> Held:
    """Numbers and bytes of weights, gradients, optimizer and reference; what learns is in float32 at least.

    SGD with momentum keeps one state per parameter, and an optimizer that is not known is counted as AdamW.
    """
    states = 1 if optimizer == "SGD" and momentum else _STATES.get(optimizer, 2)
    width = BYTES.get(dtype, BYTES["float32"])
    learns = max(width, BYTES["float32"])
    held = {
        "policy: weights": (parameters, width),
        "policy: gradients": (trainable, learns),
        f"policy: {optimizer} states": (trainable, states * learns),
        "policy: float32 copies": (trainable, learns if width < learns else 0),
        "reference: weights": (parameters, width * reference),
    }
    return {what: (numbers, numbers * size) for what, (numbers, size) in held.items() if size}
