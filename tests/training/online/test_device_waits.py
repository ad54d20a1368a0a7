"""How often the host would wait for an accelerator: once in 16 decoded tokens, once in a micro-batch, ten times in a rollout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback

from lightrl import DigitSorting, GroupRelative, GroupSampler, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine
from lightrl.rollout import decoding
from lightrl.rollout.incremental import IncrementalModel
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.testing import InPlace, quiet_trainer

sys.path.insert(0, str(Path(__file__).parent))
from device_waits import DeviceWaits

DECODE, STEP, MICRO_BATCH, ROLLOUT = "decode", "decode step", "micro-batch", "rollout"
ROLLOUTS = 2


class CountsFromTheSecond(Callback):
    """Begins to count when the first rollout has been learnt from, since some things are tried once, and ends with the last one."""

    def __init__(self, waits: DeviceWaits) -> None:
        self.waits = waits

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *arguments: Any) -> None:
        if trainer.current_epoch == 0:
            self.waits.device = pl_module.device
            self.waits.put(*pl_module.policy.parameters(), *pl_module.policy.buffers())
            optimizer = pl_module.made_optimizer.optimizer
            states = [value for state in optimizer.state.values() for name, value in state.items() if name != "step"]
            self.waits.put(*states)
            self.waits.counts.clear()
            self.waits.causes.clear()

    def on_train_end(self, *arguments: Any) -> None:
        self.waits.label = "end"


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> DeviceWaits:
    """Of a rollout of 16 rows of at most 40 tokens, with at least three micro-batches."""
    found = DeviceWaits(ROLLOUT, torch.device("cpu"))
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4)),
        rewards={"start": InPlace()},
        engine=TransformersEngine(max_new_tokens=40),
        prompts_per_rollout=4,
        micro_batch_tokens=96,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
    )
    with pytest.MonkeyPatch.context() as patch, found.counting():
        patch.setattr(decoding, "tokens_between_looks", lambda _: decoding.LOOKED_AT_ONCE)
        patch.setattr(TransformersEngine, "results", found.labelled(DECODE, TransformersEngine.results))
        patch.setattr(IncrementalModel, "step", found.labelled(STEP, IncrementalModel.step))
        patch.setattr(StrategyAdapter, "forward", found.labelled(MICRO_BATCH, StrategyAdapter.forward))
        patch.setattr(StrategyAdapter, "backward", found.labelled(MICRO_BATCH, StrategyAdapter.backward))
        run = quiet_trainer(
            max_epochs=ROLLOUTS,
            num_sanity_val_steps=0,
            default_root_dir=tmp_path_factory.mktemp("run"),
            callbacks=[CountsFromTheSecond(found)],
        )
        run.fit(module, datamodule=PromptData(train=DigitSorting(examples=60), validation_size=4))
    return found


def test_what_would_wait_is_counted_and_nothing_else() -> None:
    device = torch.device("cpu")
    waits = DeviceWaits("all", device)
    weight, host = torch.ones(3), torch.arange(3.0)
    waits.put(weight)
    with waits.counting():
        hidden = weight * host
        moved, stays = host.to(device), host.to(torch.device("cpu"))
        mask = hidden > 1
        hidden[host > 1], hidden.view(3, 1)[:, 0].sum(), torch.where(mask, hidden, 0.0), stays.tolist(), float(host[0])
        assert not waits.counts
        for number, wait in enumerate(
            (
                lambda: hidden[mask],
                lambda: float(hidden.sum()),
                lambda: bool(mask.any()),
                lambda: moved.tolist(),
                lambda: mask.nonzero(),
                lambda: hidden.cpu(),
                lambda: torch.equal(hidden, host),
                lambda: host.copy_(hidden),
                lambda: hidden.to(host),
                lambda: torch.unique(moved),
            ),
            start=1,
        ):
            wait()
            assert waits.counts["all"] == number, wait
        back = hidden.cpu()
        assert back.tolist() == [0.0, 1.0, 2.0]
        assert waits.counts["all"] == 11


def test_once_in_16_decoded_tokens(waits: DeviceWaits) -> None:
    assert waits.counts[STEP] == 0, waits.causes
    assert waits.counts[f"{STEP} calls"] > 30
    # a batch is read in one pass, and ends with a look
    batches = ROLLOUTS - 1
    assert waits.counts[DECODE] <= waits.counts[f"{STEP} calls"] / decoding.LOOKED_AT_ONCE + 2 * batches, waits.causes


def test_once_in_a_micro_batch(waits: DeviceWaits) -> None:
    micro_batches = waits.counts[f"{MICRO_BATCH} calls"] / 2
    assert micro_batches >= 3 * (ROLLOUTS - 1)
    assert waits.counts[MICRO_BATCH] <= micro_batches, [c for c in waits.causes.items() if c[0][0] == MICRO_BATCH]


def test_ten_times_in_a_rollout(waits: DeviceWaits) -> None:
    assert 0 < waits.counts[ROLLOUT] <= 10 * (ROLLOUTS - 1), waits.causes
