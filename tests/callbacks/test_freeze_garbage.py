"""Full collections pass over what stands for the whole run, and over nothing else."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule
from lightrl_workshop import quiet_trainer

from lightrl.callbacks.freeze_garbage import FreezeGarbage


class Cycle:
    """Only a collection finds that nobody needs it."""

    def __init__(self) -> None:
        self.mine = self


class Adds(LightningModule):
    """Learns nothing, and leaves a cycle behind at each step."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.left: list[weakref.ref[Cycle]] = []
        self.fails_at = fails_at

    def training_step(self, batch: Any, batch_idx: int) -> None:
        if batch_idx == self.fails_at:
            raise ValueError("on purpose")
        self.left.append(weakref.ref(Cycle()))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Counts(Callback):
    """Notes how many objects a full collection looks at, after each step, and how many are set apart."""

    def __init__(self) -> None:
        self.looked_at: list[int] = []
        self.apart: list[int] = []

    def on_train_batch_end(self, *arguments: Any) -> None:
        gc.collect()
        self.looked_at.append(len(gc.get_objects()))
        self.apart.append(gc.get_freeze_count())


def fit(tmp_path: Path, module: Adds, *callbacks: Callback) -> None:
    trainer = quiet_trainer(max_epochs=1, callbacks=callbacks, default_root_dir=tmp_path)
    trainer.fit(module, torch.utils.data.DataLoader([0, 1, 2, 3], batch_size=1))


def test_a_collection_looks_at_what_the_run_has_made_since(tmp_path: Path) -> None:
    before, counts, module = len(gc.get_objects()), Counts(), Adds()
    fit(tmp_path, module, FreezeGarbage(), counts)
    assert min(counts.apart) > 0.9 * before
    assert max(counts.looked_at) < 0.1 * before
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert [cycle() for cycle in module.left] == [None] * 4, "what a run leaves behind is collected"


def test_cycles_of_later_steps_are_collected_during_the_run(tmp_path: Path) -> None:
    module, alive = Adds(), list[bool]()

    class Looks(Callback):
        def on_train_batch_end(self, *arguments: Any) -> None:
            gc.collect()
            alive.extend(cycle() is not None for cycle in module.left)

    fit(tmp_path, module, FreezeGarbage(), Looks())
    assert len(alive) == 10
    assert not any(alive)


def test_a_run_that_fails_sets_nothing_apart(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="on purpose"):
        fit(tmp_path, Adds(fails_at=2), FreezeGarbage())
    assert gc.get_freeze_count() == 0


def test_what_somebody_else_has_set_apart_stays_so(tmp_path: Path) -> None:
    gc.freeze()
    try:
        apart = gc.get_freeze_count()
        fit(tmp_path, Adds(), FreezeGarbage())
        assert gc.get_freeze_count() > 0.9 * apart
    finally:
        gc.unfreeze()
