"""Measures the memory of a rank while a run loads, generates, learns and exports: `make bench CASE=memory`.

A policy of some 75 million parameters in a folder is trained for two rollouts by 1, 2 and 4 processes under each strategy; then by one
process with a reference, with a critic of its own, and with long rows in large micro-batches, and by two with a critic. Counted is the
memory of a process that nobody else shares and no file stands behind (RssAnon), above what the process had before it built the policy, as
a multiple of the policy's weights: at its peak while the policy is loaded, when it is loaded, at its peak while completions are generated
and while the policy learns, and at its peak while the policy is written as a folder. In brackets: `lightrl.rank_memory`.

`--models FOLDER ...` measures these models in their place, in GB: one process, 32 completions of 64 tokens, 1,024 tokens in a micro-batch;
all weights, and adapters.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightrl_workshop import CodePoints, quiet_trainer

from benchmarks.logged_process import run_logged
from lightrl import (
    ActorCritic,
    Algorithm,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    LoraPolicy,
    ModelSize,
    PolicyOptimization,
    PretrainedPolicy,
    Prompt,
    PromptData,
    PromptSource,
    TinyPolicy,
    TransformersEngine,
    ValueModel,
    rank_memory,
)
from lightrl.callbacks.export_policy import ExportPolicy
from lightrl.training.reports.run_ledger import PhaseObserver

STRATEGIES = ("ddp", "deepspeed_stage_2", "deepspeed_stage_3", "fsdp2")
PHASES = ("loading", "loaded", "generating", "learning", "exporting")
EVERY = 0.002
"""Seconds between two looks at the memory."""
NEW = 8
"""Most tokens of a completion."""


@dataclass(frozen=True)
class Case:
    """A run that is measured."""

    strategy: str
    ranks: int
    reference: bool = False
    critic: bool = False
    rows: int = 8
    """Rows of a rank that are decoded at a time."""
    prompt: int = 8
    """Characters of a prompt."""
    micro_batch_tokens: int = 128
    new: int = NEW
    """Most tokens of a completion."""
    learning: int | None = None
    """Parameters of the adapters that learn; None: all of the policy's learn."""

    @property
    def title(self) -> str:
        """Its name in the table."""
        beside = [name for name in ("reference", "critic") if getattr(self, name)] + ["adapters"] * (self.learning is not None)
        beside += [f"{self.rows} rows"] * (self.rows > Case.rows) + [f"{self.micro_batch_tokens} tokens"] * (self.micro_batch_tokens > 128)
        return " ".join([self.strategy, *beside])

    def predicted(self, size: ModelSize) -> dict[str, float]:
        """The bytes of the phases that there is a formula for."""
        strategy, positions = "auto" if self.ranks == 1 and self.strategy == "ddp" else self.strategy, self.prompt + self.new
        options = {"reference": self.reference, "critic": self.critic, "rows": self.rows, "positions": positions, "learning": self.learning}
        tokens = min(self.micro_batch_tokens, self.rows * positions)
        of = rank_memory(size, strategy, self.ranks, "32-true", micro_batch_tokens=tokens, **options)  # type: ignore[arg-type]
        # the moments take memory with the first step
        return {"loaded": of.standing - of.optimizer, "generating": of.generating, "learning": of.learning}


class Digits(PromptSource):
    """Prompts of one length."""

    def __init__(self, length: int, count: int) -> None:
        """
        Args:
            length: in characters.
            count: how many.
        """
        self.length, self.count = length, count

    @property
    def size(self) -> int:
        return self.count

    def prompt(self, index: int) -> Prompt:
        return Prompt(id=str(index), text=f"{index:0{self.length}}")


def anonymous() -> int:
    """Bytes of this process that no file stands behind."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError("/proc/self/status has no RssAnon: this benchmark needs Linux")
    return 1024 * int(found[1])


class Watch(threading.Thread):
    """Notes the peak since it was last asked."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self._lock = 0, threading.Lock()

    def run(self) -> None:
        while True:
            with self._lock:
                self.peak = max(self.peak, anonymous())
            time.sleep(EVERY)

    def taken(self) -> int:
        """The peak, which begins anew."""
        with self._lock:
            peak, self.peak = max(self.peak, anonymous()), 0
        return peak


class Phases(Callback, PhaseObserver):
    """Notes the peak of each phase; must stand before the callback that exports."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.before, self.now = watch, 0, ""
        self.found = dict.fromkeys(PHASES, 0)

    def enter(self, phase: str) -> None:
        """The phase before it is over."""
        peak = self.watch.taken()
        if self.now:
            self.found[self.now] = max(self.found[self.now], peak)
        self.now = phase

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        self.before = self.watch.taken()
        self.enter("loading")

    def on_phase(self, phase: str) -> None:
        self.enter("learning" if phase == "optimize" else "generating")

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        self.enter("")
        self.found["loaded"] = anonymous()

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.enter("exporting")


def algorithm(case: Case) -> Algorithm:
    """With the networks that the case has beside the policy."""
    if case.critic:
        return ActorCritic(critic=ValueModel())
    return GroupRelative(sampler=GroupSampler(group_size=2), kl=KLPenalty(loss_coefficient=0.01) if case.reference else None)


def run(case: Case, folder: Path) -> None:
    """Train and export; called in a process of its own, which starts the others."""
    torch.set_num_threads(1)
    trained = algorithm(case)
    prompts = case.rows * case.ranks // trained.sampler.group_size
    policy = PretrainedPolicy(str(folder / "policy"))
    module = PolicyOptimization(
        policy=policy if case.learning is None else LoraPolicy(policy),
        algorithm=trained,
        rewards={"code points": CodePoints()},
        engine=TransformersEngine(max_new_tokens=case.new, max_rows=case.rows),
        prompts_per_rollout=prompts,
        micro_batch_tokens=case.micro_batch_tokens,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-6),
    )
    watch = Watch()
    phases = Phases(watch)
    strategy = "auto" if case.ranks == 1 and case.strategy == "ddp" else case.strategy
    callbacks = [phases, ExportPolicy(str(folder / "exported"))]
    trainer = quiet_trainer(devices=case.ranks, strategy=strategy, max_epochs=2, callbacks=callbacks)
    watch.start()
    trainer.fit(module, datamodule=PromptData(train=Digits(case.prompt, 2 * prompts)))
    phases.enter("")
    used = {phase: peak - phases.before for phase, peak in phases.found.items()}
    (folder / f"rank{trainer.global_rank}.json").write_text(json.dumps(used))


def measured(case: Case, source: TinyPolicy | Path, logs: Path) -> list[dict[str, int]]:
    """The bytes of every rank in every phase."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if isinstance(source, Path):
            (folder / "policy").symlink_to(source.resolve())
        else:
            source.build().save(folder / "policy")
        # else glibc keeps what is freed in blocks below 32 MB
        os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"
        run_logged(
            ["-m", __spec__.name, "--run", json.dumps(asdict(case)), folder], logs / f"{case.title} {case.ranks}.txt".replace(" ", "-")
        )
        return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(case.ranks)]


def cells(case: Case, found: list[dict[str, int]], size: ModelSize, unit: float) -> dict[str, str]:
    """What the table says of each phase, in units of so many bytes."""
    predicted = case.predicted(size)
    said = {phase: f"{max(rank[phase] for rank in found) / unit:.2f}" for phase in PHASES}
    said |= {phase: f"{said[phase]} [{bytes_ / unit:.2f}]" for phase, bytes_ in predicted.items()}
    if case.ranks > 1:
        # the first rank keeps what it writes
        said["exporting"] += f" / {max(rank['exporting'] for rank in found[1:]) / unit:.2f}"
    return said


def of_models(models: list[Path], out: Path) -> int:
    """Print and write the table of some models, in GB."""
    print("memory of a rank above that of its libraries, in GB [by formula]")
    print(f"{'model':<24}{'learns':<10}{'loading':>9}" + "".join(f"{phase:>14}" for phase in PHASES[1:]))
    table = []
    for model in models:
        source = PretrainedPolicy(str(model))
        size = ModelSize.of(source.outline())
        for learns in (None, LoraPolicy(source).trainable()):
            case = Case("ddp", 1, rows=32, prompt=64, micro_batch_tokens=1024, new=64, learning=learns)
            found = measured(case, model, out)
            table.append({"model": model.name, "case": asdict(case), "predicted": case.predicted(size), "ranks": found})
            said = cells(case, found, size, 1e9)
            name = "all" if learns is None else "adapters"
            print(f"{model.name:<24}{name:<10}{said.pop('loading'):>9}" + "".join(f"{cell:>14}" for cell in said.values()), flush=True)
    (out / "models.json").write_text(json.dumps(table, indent=2))
    return 0


def main() -> int:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=STRATEGIES, metavar="NAME", help=f"of {STRATEGIES}")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--hidden", type=int, default=768, help="width of the policy")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--models", type=Path, nargs="+", metavar="FOLDER", help="measure these, in place of a policy of random weights")
    parser.add_argument("--out", type=Path, default=Path("runs/memory"))
    parser.add_argument("--run", nargs=2, metavar=("CASE", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run(Case(**json.loads(arguments.run[0])), Path(arguments.run[1]))
        return 0
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.models:
        return of_models(arguments.models, arguments.out)
    source = TinyPolicy(hidden=arguments.hidden, layers=arguments.layers, heads=8)
    size = ModelSize.of(source.outline())
    print(f"memory of a rank above that of its libraries, in sizes of the policy ({4 * size.parameters / 1e6:.0f} MB) [by formula]")
    print(f"{'strategy':<24}{'ranks':>5}{'loading':>9}" + "".join(f"{phase:>14}" for phase in PHASES[1:]))
    alone = [Case("ddp", 1, reference=True), Case("ddp", 1, critic=True), Case("fsdp2", 2, critic=True)]
    alone += [Case("ddp", 1, rows=16, prompt=400, micro_batch_tokens=1640)]
    table = []
    for case in [*(Case(strategy, ranks) for strategy in arguments.strategies for ranks in arguments.ranks), *alone]:
        found = measured(case, source, arguments.out)
        table.append({"case": asdict(case), "predicted": case.predicted(size), "ranks": found})
        said = cells(case, found, size, 4 * size.parameters)
        print(f"{case.title:<24}{case.ranks:>5}{said.pop('loading'):>9}" + "".join(f"{cell:>14}" for cell in said.values()), flush=True)
    (arguments.out / "summary.json").write_text(json.dumps({"bytes": 4 * size.parameters, "cases": table}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
