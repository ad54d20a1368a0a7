"""Runs of every kind on a device without a device: host and device never mix, and how often the host would wait."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.strategies import SingleDeviceStrategy
from lightrl_workshop import quiet_trainer
from torch import Tensor

from lightrl import TransformersEngine
from lightrl.rollout.decode import decoding, lean_step
from lightrl.rollout.decode.incremental import IncrementalModel
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.training.steps.learner import Learner

sys.path.insert(0, str(Path(__file__).parent))
from device_runs import RUNS
from tagged_device import DEVICE, HOST, TaggedDevice

DECODE, STEP, MICRO_BATCH, OPTIMIZER, REST = "decode", "decode step", "micro-batch", "optimizer step", "rest"
WATCHED = {
    DECODE: [(TransformersEngine, "results")],
    STEP: [(IncrementalModel, "step")],
    MICRO_BATCH: [(StrategyAdapter, "forward"), (StrategyAdapter, "backward")],
    OPTIMIZER: [(Learner, "step_on")],
}
"""Methods, by the label of their waits."""
FORWARDS = {"LoRA with KL": 1, "GRPO, offloaded reference": 1, "PPO": 3, "PPO, value model": 3, "mixture of experts": 4, "DPO": 1, "KTO": 2}
"""Numbers of each token that a run reads in passes without gradient: each is copied to the host once in a micro-batch."""
LOOKS = {"environment": 6, "mixture of experts": 2}
"""Batches that are decoded: one for each turn. What a model records is copied in each look as well."""


class FromTheSecondStep(Callback):
    """Counts waits from the second training step on, since some things are tried once; mixes are counted from the start."""

    def __init__(self, device: TaggedDevice) -> None:
        self.device, self.steps = device, 0

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *arguments: Any) -> None:
        self.steps += 1
        assert all(self.device.has(parameter) for parameter in pl_module.parameters())
        if self.steps == 1:
            self.device.counts.clear()
            self.device.causes.clear()

    def on_train_end(self, *arguments: Any) -> None:
        self.device.label = "end"


@contextmanager
def labels(device: TaggedDevice) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "tokens_between_looks", lambda _: decoding.LOOKED_AT_ONCE)
        # what stands for an accelerator is of type cpu, and would be given the products that only a CPU has
        patch.setattr(lean_step, "_only_multiplies", lambda _: False)
        for label, methods in WATCHED.items():
            for owner, name in methods:
                patch.setattr(owner, name, device.labelled(label, getattr(owner, name)))
        yield


def learnt(name: str) -> TaggedDevice:
    """Two training steps of a run."""
    device = TaggedDevice(REST)
    torch.manual_seed(0)
    module, data = RUNS[name]()
    steps = {"max_epochs": 2} if hasattr(module, "algorithm") else {"max_steps": 2}
    settings: dict[str, Any] = {"num_sanity_val_steps": 0, "check_val_every_n_epoch": 9, "callbacks": [FromTheSecondStep(device)]}
    with labels(device), device.watching():
        quiet_trainer(strategy=SingleDeviceStrategy(device=DEVICE), **settings, **steps).fit(module, datamodule=data)
    return device


@pytest.mark.thorough
@pytest.mark.parametrize("name", RUNS)
def test_nothing_mixes_and_the_host_waits_no_more_than_it_must(name: str) -> None:
    device = learnt(name)
    counts, causes = device.counts, device.causes
    assert not device.mixes
    micro_batches, steps = counts[f"{MICRO_BATCH} calls"] // 2, counts[f"{OPTIMIZER} calls"]
    assert micro_batches >= steps > 0
    assert counts[MICRO_BATCH] == 0, causes
    # the norm of the gradients
    assert counts[OPTIMIZER] <= steps, causes
    assert counts[STEP] == 0, causes
    looks = counts[f"{STEP} calls"] / decoding.LOOKED_AT_ONCE + counts[f"{DECODE} calls"]
    assert counts[DECODE] <= looks * LOOKS.get(name, 1), causes
    rest = Counter({cause: count for (label, cause), count in causes.items() if label == REST and "reference.py" not in cause})
    passes = micro_batches / steps
    # statistics come to the host together, twice in a rollout
    assert rest.total() <= 2 + FORWARDS.get(name, 0) * (passes + 1), causes


def waiting(hidden: Tensor, mask: Tensor, moved: Tensor, host: Tensor) -> list[Callable[[], object]]:
    return [
        lambda: hidden[mask],
        lambda: float(hidden.sum()),
        lambda: bool(mask.any()),
        lambda: moved.tolist(),
        lambda: mask.nonzero(),
        lambda: hidden.cpu(),
        lambda: torch.equal(hidden, moved),
        lambda: host.clone().copy_(hidden),
        lambda: hidden.to(host),
        lambda: torch.unique(moved),
        lambda: host.to(DEVICE),
        lambda: torch.tensor([1.0], device=DEVICE),
        lambda: hidden[torch.tensor([0, 1])],
        lambda: torch.zeros_like(hidden).copy_(host),
    ]


def test_what_would_wait_is_counted_and_nothing_else() -> None:
    device, weight, host = TaggedDevice("all"), torch.ones(3), torch.arange(3.0)
    device.put(weight)
    with device.watching():
        moved = host.to(DEVICE, non_blocking=True)
        hidden, stays = weight * moved, host.to(HOST)
        mask = hidden > 1
        hidden.view(3, 1)[:, 0].sum(), torch.where(mask, hidden, 0.0), hidden[moved.long()], stays.tolist(), float(host[0])
        hidden.clone().copy_(host, non_blocking=True)
        assert (moved.device, hidden.device, stays.device) == (DEVICE, DEVICE, HOST)
        assert not device.counts
        for number, wait in enumerate(waiting(hidden, mask, moved, host), start=1):
            wait()
            assert device.counts["all"] == number, number
        assert hidden.cpu().tolist() == [0.0, 1.0, 2.0]
    assert not device.mixes


def test_a_mix_is_counted_and_a_number_of_the_host_is_none() -> None:
    device, weight, host = TaggedDevice("all"), torch.ones(3, 3), torch.arange(3.0)
    device.put(weight)
    with device.watching():
        assert (weight * host[0]).device == DEVICE
        assert not device.mixes
        for number, mix in enumerate(
            (
                lambda: weight * host,
                lambda: weight @ host,
                lambda: torch.cat([weight[0], host]),
                lambda: host[weight[0].long()],
                lambda: host.add_(weight[0]),
                lambda: torch.nn.functional.embedding(torch.zeros(3, dtype=torch.long), weight),
            ),
            start=1,
        ):
            mix()
            assert device.mixes.total() == number, device.mixes


def test_a_module_and_its_copy_are_where_they_were_moved() -> None:
    device = TaggedDevice("all")
    with device.watching():
        module = torch.nn.Linear(2, 2).to(DEVICE)
        assert device.has(module.weight)
        assert module(torch.ones(1, 2, device=DEVICE)).device == DEVICE
        module.to(HOST)
        assert not device.has(module.weight)
    assert not device.mixes
