"""Rollouts that are made while the policy learns: which weights make which is a function of the rollout's number, and nothing is lost."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightrl_dapo import DynamicSampler
from lightrl_workshop import quiet_trainer

from lightrl import (
    Function,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    ProcessEngine,
    PromptData,
    Reversal,
    RolloutEngine,
    TinyPolicy,
    TransformersEngine,
    TruncatedImportance,
)
from lightrl.callbacks import preemption

sys.path.insert(0, str(Path(__file__).parent.parent))
from own_copy import OneUpdateLate, OwnCopy

EVENTS: dict[str, threading.Event] = {}
"""Of the test that is running."""


def small_digits(completion: str, **_: object) -> float:
    """A reward in this process that may wait for the trainer."""
    if "started" in EVENTS and threading.current_thread() is not threading.main_thread():
        EVENTS["started"].set()
        EVENTS["go_on"].wait(60)
    return sum(character in "012" for character in completion) / 8


@pytest.fixture(autouse=True)
def _no_events() -> Any:
    EVENTS.clear()
    yield
    for event in EVENTS.values():
        event.set()
    EVENTS.clear()


class Seen(Callback):
    """What each rollout was made with, what was logged, and when."""

    def __init__(self) -> None:
        self.versions: list[list[int]] = []
        self.numbers: list[dict[str, float]] = []
        self.completions: list[list[str]] = []

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        module: Any = pl_module
        self.versions.append(sorted(set(module.experience.policy_version.tolist())))
        self.completions.append(module.experience.completions)
        self.numbers.append(dict(module.numbers))


def made(engine: RolloutEngine, ahead: int, sampler: Any = None, **settings: Any) -> PolicyOptimization:
    """A run whose weights move a lot."""
    return PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=sampler or GroupSampler(group_size=4), minibatches=2, old_logprobs="rollout"),
        rewards={"small": Function(f"{__name__}.small_digits", runs="inline")},
        engine=engine,
        prompts_per_rollout=4,
        rollouts_ahead=ahead,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
        **settings,
    )


def fitted(module: PolicyOptimization, rollouts: int, *callbacks: Callback, resume: str | None = None, **data: Any) -> PolicyOptimization:
    """The module after so many rollouts."""
    trainer = quiet_trainer(max_epochs=rollouts, callbacks=list(callbacks), enable_checkpointing=any(map(_saves, callbacks)))
    trainer.fit(module, datamodule=PromptData(train=Reversal(examples=37), **data), ckpt_path=resume)
    return module


def _saves(callback: Callback) -> bool:
    return isinstance(callback, ModelCheckpoint)


def expect_same_weights(a: PolicyOptimization, b: PolicyOptimization) -> None:
    """To the bit."""
    theirs = dict(b.policy.named_parameters())
    assert all(torch.equal(parameter, theirs[name]) for name, parameter in a.policy.named_parameters())


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_staleness_is_a_function_of_the_rollout(ahead: int) -> None:
    seen = Seen()
    fitted(made(OwnCopy(), ahead), 5, seen)
    # two optimizer steps per rollout
    assert seen.versions == [[2 * max(0, rollout - ahead)] for rollout in range(5)]
    assert [numbers["sampling/staleness"] for numbers in seen.numbers] == [2 * min(rollout, ahead) for rollout in range(5)]
    assert [numbers["sampling/staleness_rollouts"] for numbers in seen.numbers] == [min(rollout, ahead) for rollout in range(5)]
    # only rows of the present weights have ratios of 1 on the first pass
    assert ["ratio/first_pass_deviation" in numbers for numbers in seen.numbers] == [rollout == 0 or not ahead for rollout in range(5)]
    assert [("perf/wait_for_rollout_s" in numbers, "perf/wait_for_trainer_s" in numbers) for numbers in seen.numbers] == [
        (ahead > 0, ahead > 0)
    ] * 5
    assert all("engine/deviation" in numbers for numbers in seen.numbers)


def test_one_ahead_is_what_an_engine_gives_that_gets_each_update_one_rollout_late() -> None:
    expected, found, late = Seen(), Seen(), OneUpdateLate()
    # nobody asks an engine in the process of the trainer whether it is late
    late.in_process = True  # type: ignore[misc]
    expect_same_weights(fitted(made(late, 0), 5, expected), fitted(made(OwnCopy(), 1), 5, found))
    assert expected.completions == found.completions


@pytest.mark.thorough
def test_processes_give_the_same_ahead() -> None:
    here, there = Seen(), Seen()
    one = fitted(made(OwnCopy(), 1), 3, here)
    other = fitted(made(ProcessEngine(TransformersEngine(max_new_tokens=8, slice_rows=8)), 1), 3, there)
    assert there.completions == here.completions
    # on some processors a product of 8 rows differs in the last bit from that of 16
    for mine, theirs in zip(one.policy.parameters(), other.policy.parameters(), strict=True):
        assert torch.allclose(mine, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("sampler", [None, DynamicSampler(group_size=4, max_rounds=0, surplus="carry", oversampling=2.0)])
@pytest.mark.parametrize("ahead", [1, 2])
def test_a_resumed_run_ends_with_the_same_weights(tmp_path: Path, ahead: int, sampler: Any) -> None:
    saving = ModelCheckpoint(tmp_path, save_top_k=-1, filename="{epoch}", every_n_epochs=1)
    whole, rest = Seen(), Seen()
    one = fitted(made(OwnCopy(), ahead, sampler), 6, saving, whole)
    two = fitted(made(OwnCopy(), ahead, sampler), 6, rest, resume=str(tmp_path / "epoch=2.ckpt"))
    expect_same_weights(one, two)
    assert rest.completions == whole.completions[3:]
    logged = [{k: v for k, v in numbers.items() if not k.startswith(("perf/", "progress/seconds"))} for numbers in whole.numbers]
    again = [{k: v for k, v in numbers.items() if not k.startswith(("perf/", "progress/seconds"))} for numbers in rest.numbers]
    assert [{k: v for k, v in n.items() if "/seconds" not in k} for n in again] == [
        {k: v for k, v in n.items() if "/seconds" not in k} for n in logged[3:]
    ]


def test_a_checkpoint_with_rollouts_ahead_may_be_resumed_without(tmp_path: Path) -> None:
    seen = Seen()
    fitted(made(OwnCopy(), 1), 3, ModelCheckpoint(tmp_path, filename="last", every_n_epochs=1))
    fitted(made(OwnCopy(), 0), 6, seen, resume=str(tmp_path / "last.ckpt"))
    # the rollout that was made ahead is learnt from first
    assert seen.versions == [[4], [8], [10]]


def test_the_next_rollout_is_made_while_the_policy_learns() -> None:
    class Waits(PolicyOptimization):
        def optimization_phase(self, batch: Any) -> None:
            # the reward of the rollout ahead is at work, and cannot go on before these steps
            assert EVENTS["started"].wait(60)
            EVENTS["go_on"].set()
            super().optimization_phase(batch)

    EVENTS.update(started=threading.Event(), go_on=threading.Event())
    module = made(OwnCopy(), 1)
    module.__class__ = Waits
    fitted(module, 1)
    assert module.trainer.global_step == 2


def test_an_evaluation_has_the_present_weights() -> None:
    class Watched(OwnCopy):
        def __init__(self) -> None:
            super().__init__()
            self.versions: list[int] = []

        def submit(self, requests: Any) -> None:
            self.versions.append(self._version)
            super().submit(requests)

    engine = Watched()
    seen = Seen()
    module = made(engine, 1)
    validated = list[int]()

    class Notes(Callback):
        def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
            validated.append(engine._version)

    fitted(module, 3, seen, Notes(), validation_size=4)
    assert validated[-3:] == [2, 4, 6]
    assert seen.versions == [[0], [0], [2]]


def test_a_failure_in_a_rollout_ahead_ends_the_run_with_its_reason() -> None:
    class Broken(OwnCopy):
        def submit(self, requests: Any) -> None:
            if threading.current_thread() is not threading.main_thread() and self._version:
                raise RuntimeError("the engine's machine is on fire")
            super().submit(requests)

    with pytest.raises(RuntimeError, match="machine is on fire"):
        fitted(made(Broken(), 1), 5)
    assert not [thread for thread in threading.enumerate() if thread.name == "rollout ahead"]


@pytest.mark.thorough
def test_a_failure_of_the_trainer_leaves_nothing_behind() -> None:
    class Stops(PolicyOptimization):
        def optimization_phase(self, batch: Any) -> None:
            raise KeyError("the trainer")

    module = made(ProcessEngine(TransformersEngine(max_new_tokens=8)), 1)
    module.__class__ = Stops
    started = time.monotonic()
    with pytest.raises(KeyError, match="the trainer"):
        fitted(module, 5)
    assert time.monotonic() - started < 60
    assert not [thread for thread in threading.enumerate() if thread.name == "rollout ahead"]


def test_sigterm_waits_for_the_rollout_ahead_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    class Asks(PolicyOptimization):
        def optimization_phase(self, batch: Any) -> None:
            if self.trainer.current_epoch == 1:
                signal.raise_signal(signal.SIGTERM)
            super().optimization_phase(batch)

    monkeypatch.setattr(preemption, "LIMIT_S", 0.2)
    module = made(SlowLater(), 1)
    module.__class__ = Asks
    saving = ModelCheckpoint(tmp_path, filename="{epoch}", every_n_epochs=1, save_top_k=-1)
    with pytest.raises(SystemExit) as ended:
        fitted(module, 5, saving, preemption.PreemptionCheckpoint())
    assert ended.value.code == 143
    assert "the next one was not complete after 0.2 s. The last checkpoint holds" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["epoch=0.ckpt"]
    whole = fitted(made(OwnCopy(), 1), 4)
    expect_same_weights(whole, fitted(made(OwnCopy(), 1), 4, resume=str(tmp_path / "epoch=0.ckpt")))


class SlowLater(OwnCopy):
    """Takes a while for rollouts of the second update and later ones."""

    def submit(self, requests: Any) -> None:
        if self._version and threading.current_thread() is not threading.main_thread():
            time.sleep(3)
        super().submit(requests)


def test_the_embedded_engine_cannot_work_ahead() -> None:
    with pytest.raises(ValueError, match=r"rollouts_ahead is 1, and TransformersEngine decodes with the trainer's own modules"):
        made(TransformersEngine(), 1)
    with pytest.raises(ValueError, match=r"0 <= rollouts_ahead <= 64, got rollouts_ahead=-1"):
        made(OwnCopy(), -1)


def test_a_correction_is_advised_where_staleness_would_go_unnoticed() -> None:
    def with_algorithm(**settings: Any) -> PolicyOptimization:
        rewards = {"small": Function("lightrl_workshop.toy.small_digits")}
        return PolicyOptimization(TinyPolicy(), GroupRelative(**settings), rewards, OwnCopy(), rollouts_ahead=1)

    with pytest.warns(UserWarning, match=r"Set algorithm\.correction, for example TruncatedImportance"):
        with_algorithm(old_logprobs="recompute")
    with_algorithm(old_logprobs="rollout")
    with_algorithm(old_logprobs="recompute", correction=TruncatedImportance())


def test_the_first_rows_are_probed_before_the_trainer_moves() -> None:
    # an update that is missed is noticed before anything is learnt from what it makes
    with pytest.raises(RuntimeError, match=r"at step 2:"):
        fitted(made(OwnCopy(updates=1), 1), 5)
