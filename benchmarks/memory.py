"""Measures the memory of a rank while a run loads, trains and exports: `python benchmarks/memory.py`, or `make memory`.

A policy of some 50 million parameters in a folder is trained for two steps by 1, 2 and 4 processes under each strategy. Counted is the
memory of a process that nobody else shares and no file stands behind (RssAnon), above what the process had before it built the policy,
as a multiple of the policy's weights: at its peak while the policy is loaded, when it is loaded, at its peak in the steps, and at its
peak while the policy is written as a folder.
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
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from logged_process import run_logged

from lightrl import (
    DigitSorting,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    PretrainedPolicy,
    PromptData,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.callbacks.export_policy import ExportPolicy
from lightrl.testing import FirstDigits, quiet_trainer

STRATEGIES = ("ddp", "deepspeed_stage_2", "deepspeed_stage_3", "fsdp2")
PHASES = ("loading", "loaded", "training", "exporting")
EVERY = 0.002
"""Seconds between two looks at the memory."""


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
        self.peak = 0

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, anonymous())
            time.sleep(EVERY)

    def taken(self) -> int:
        """The peak, which begins anew."""
        peak, self.peak = max(self.peak, anonymous()), 0
        return peak


class Phases(Callback):
    """Notes the peak of each phase; must stand before the callback that exports."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.before, self.found = watch, 0, dict[str, int]()

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        self.before = self.watch.taken()

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        self.found["loading"], self.found["loaded"] = self.watch.taken(), anonymous()

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.found["training"] = self.watch.taken()


def run(strategy: str, ranks: int, folder: Path) -> None:
    """Train and export; called in a process of its own, which starts the others."""
    torch.set_num_threads(1)
    module = PolicyOptimization(
        policy=PretrainedPolicy(str(folder / "policy")),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=2)),
        rewards={"digits": FirstDigits()},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=4,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
    )
    watch = Watch()
    phases = Phases(watch)
    callbacks = [phases, ExportPolicy(str(folder / "exported"))]
    trainer = quiet_trainer(
        devices=ranks, strategy="auto" if ranks == 1 and strategy == "ddp" else strategy, max_epochs=2, callbacks=callbacks
    )
    watch.start()
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=8)))
    phases.found["exporting"] = watch.taken()
    used = {phase: phases.found[phase] - phases.before for phase in PHASES}
    (folder / f"{strategy}-{ranks}-rank{trainer.global_rank}.json").write_text(json.dumps(used))


def measured(strategy: str, ranks: int, folder: Path) -> list[dict[str, int]]:
    """The bytes of every rank in every phase."""
    # else glibc keeps what is freed in blocks below 32 MB
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"
    run_logged([__file__, "--run", strategy, ranks, folder], folder / f"{strategy}-{ranks}.txt")
    return [json.loads((folder / f"{strategy}-{ranks}-rank{rank}.json").read_text()) for rank in range(ranks)]


def main() -> int:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=STRATEGIES, metavar="NAME", help=f"of {STRATEGIES}")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--hidden", type=int, default=768, help="width of the policy")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("runs/memory"))
    parser.add_argument("--run", nargs=3, metavar=("STRATEGY", "RANKS", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run(arguments.run[0], int(arguments.run[1]), Path(arguments.run[2]))
        return 0
    source = TinyPolicy(hidden=arguments.hidden, layers=arguments.layers, heads=8)
    size = 4 * source.parameters()
    print(f"memory of a rank above that of its libraries, in sizes of the policy ({size / 1e6:.0f} MB): first rank / others")
    print(f"{'strategy':<20}{'ranks':>6}" + "".join(f"{phase:>18}" for phase in PHASES))
    table: dict[str, Any] = {}
    for strategy in arguments.strategies:
        for ranks in arguments.ranks:
            with tempfile.TemporaryDirectory() as name:
                source.build().save(Path(name) / "policy")
                found = measured(strategy, ranks, Path(name))
            cells = {phase: [found[0][phase] / size, max((one[phase] / size for one in found[1:]), default=0.0)] for phase in PHASES}
            table[f"{strategy} {ranks}"] = cells
            shown = "".join(f"{f'{first:.2f}' + (f' / {other:.2f}' if ranks > 1 else ''):>18}" for first, other in cells.values())
            print(f"{strategy:<20}{ranks:>6}{shown}", flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "summary.json").write_text(json.dumps({"bytes": size, "sizes": table}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
