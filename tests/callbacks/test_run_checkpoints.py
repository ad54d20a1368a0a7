"""Every run leaves its policy: at its end, now and then, and the best one."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightrl_workshop import CodePoints, quiet_trainer

from lightrl import DigitSorting, GroupRelative, PolicyOptimization, PromptData, SupervisedFineTuning, TinyPolicy, TransformersEngine
from lightrl.callbacks.preemption import PreemptionCheckpoint
from lightrl.callbacks.run_checkpoints import RunCheckpoints
from lightrl.callbacks.run_summary import checkpoint_of
from lightrl.strategies.checkpoint_io import tensor_bytes

DATA = {"train": DigitSorting(examples=40)}


def module() -> PolicyOptimization:
    return PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1),
        algorithm=GroupRelative(),
        rewards={"code points": CodePoints()},
        engine=TransformersEngine(max_new_tokens=4),
        prompts_per_rollout=2,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    )


def fitted(folder: Path, rollouts: int, saver: RunCheckpoints, *more: Callback, resume: str | None = None, **trainer: Any) -> Trainer:
    """A run whose checkpoints are in `folder/checkpoints`."""
    made = quiet_trainer(max_epochs=rollouts, default_root_dir=folder, callbacks=[saver, *more], **trainer)
    subject = module()
    made.fit(subject, datamodule=PromptData(**DATA, validation_size=8), ckpt_path=resume)
    made.subject = subject
    return made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_a_run_without_validation_that_is_shorter_than_all_limits_ends_with_its_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        run = fitted(tmp_path, 3, RunCheckpoints(), limit_val_batches=0)
    # which Lightning says of every checkpoint for which nobody says what it is to hold
    assert "weights_only" not in caplog.text
    assert names(tmp_path) == ["rollout=3.ckpt"]
    assert checkpoint_of(run) == str(tmp_path / "checkpoints" / "rollout=3.ckpt")


def test_the_last_two_and_none_else(tmp_path: Path) -> None:
    fitted(tmp_path, 7, RunCheckpoints(every_rollouts=2), limit_val_batches=0)
    assert names(tmp_path) == ["rollout=6.ckpt", "rollout=7.ckpt"]


class CtrlC(Callback):
    """Presses it in the first rollout."""

    def on_train_batch_start(self, *arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def test_what_a_signal_has_left_goes_when_the_resumed_run_is_at_its_end(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        fitted(tmp_path, 2, RunCheckpoints(), PreemptionCheckpoint(), CtrlC(), limit_val_batches=0)
    assert names(tmp_path) == ["preempted.ckpt"]
    preempted = str(tmp_path / "checkpoints" / "preempted.ckpt")
    fitted(tmp_path, 2, RunCheckpoints(), PreemptionCheckpoint(), limit_val_batches=0, resume=preempted)
    assert names(tmp_path) == ["rollout=2.ckpt"]


def test_minutes_count_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minutes = iter(range(0, 100_000, 1200))
    monkeypatch.setattr("lightrl.callbacks.run_checkpoints.time.monotonic", lambda: next(minutes))
    saver = RunCheckpoints(keep=9)
    fitted(tmp_path, 3, saver, limit_val_batches=0)
    assert names(tmp_path) == ["rollout=2.ckpt", "rollout=3.ckpt"]


class Scores(Callback):
    """Gives validations their score; it stands before the others, which save by it."""

    def __init__(self, *scores: float) -> None:
        self.scores = list(scores)

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        if trainer.global_step:
            trainer.callback_metrics["val/reward"].fill_(self.scores.pop(0))


def test_the_best_one_is_kept_and_named(tmp_path: Path) -> None:
    saver = RunCheckpoints(keep=1)
    run = fitted(tmp_path, 4, saver, Scores(0.2, 0.9, 0.9, 0.3), check_val_every_n_epoch=1)
    assert names(tmp_path) == ["best-rollout=2.ckpt", "rollout=4.ckpt"]
    folder = tmp_path / "checkpoints"
    assert checkpoint_of(run) == f"{folder / 'rollout=4.ckpt'}   Best: {folder / 'best-rollout=2.ckpt'}"


@pytest.mark.parametrize("name", ["rollout=2.ckpt", "best-rollout=3.ckpt"])
def test_a_run_resumed_from_any_of_them_ends_like_one_that_was_never_stopped(tmp_path: Path, name: str) -> None:
    whole = fitted(tmp_path / "whole", 5, RunCheckpoints(), Scores(*[0.1] * 5), check_val_every_n_epoch=1)
    part = tmp_path / "part"
    fitted(part, 3 if name.startswith("best") else 2, RunCheckpoints(), Scores(0.1, 0.2, 0.3), check_val_every_n_epoch=1)
    start, saver = str(part / "checkpoints" / name), RunCheckpoints()
    resumed = fitted(part, 5, saver, Scores(*[0.0] * 5), resume=start, check_val_every_n_epoch=1)
    for mine, other in zip(resumed.subject.policy.parameters(), whole.subject.policy.parameters(), strict=True):
        assert torch.equal(mine, other)
    assert saver.best_score == pytest.approx(0.3 if name.startswith("best") else 0.2)
    assert names(part)[-1] == "rollout=5.ckpt"


def test_a_run_of_one_rollout_wrote_the_same_checkpoint_twice(tmp_path: Path) -> None:
    saver = RunCheckpoints()
    fitted(tmp_path, 1, saver, check_val_every_n_epoch=1)
    assert names(tmp_path) == ["best-rollout=1.ckpt", "rollout=1.ckpt"]
    best, last = (tmp_path / "checkpoints" / name for name in names(tmp_path))
    assert best.samefile(last)
    assert saver.best_model_path == str(best)
    # the one stays when the other goes
    fitted(tmp_path, 4, RunCheckpoints(keep=1), Scores(*[-1.0] * 5), resume=str(last), check_val_every_n_epoch=1)
    assert names(tmp_path) == ["best-rollout=1.ckpt", "rollout=4.ckpt"]
    assert torch.load(best, weights_only=True)["epoch"] == 0


def test_a_validation_after_the_last_step_writes_no_second_file_either(tmp_path: Path) -> None:
    limits = {"max_steps": 3, "max_epochs": -1, "val_check_interval": 3, "check_val_every_n_epoch": None}
    made = quiet_trainer(**limits, default_root_dir=tmp_path, callbacks=[RunCheckpoints()])
    made.fit(SupervisedFineTuning(policy=TinyPolicy(hidden=16, layers=1), batch_size=4), datamodule=PromptData(**DATA, validation_size=8))
    best, last = (tmp_path / "checkpoints" / name for name in ("best-step=3.ckpt", "step=3.ckpt"))
    assert names(tmp_path) == [best.name, last.name]
    assert best.samefile(last)


def test_the_best_one_is_written_where_the_disk_has_no_second_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError("no such thing here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    fitted(tmp_path, 1, RunCheckpoints(), check_val_every_n_epoch=1)
    best, last = (tmp_path / "checkpoints" / name for name in names(tmp_path))
    assert not best.samefile(last)
    assert best.stat().st_size == pytest.approx(last.stat().st_size, rel=0.01)


def test_without_the_optimizer_a_checkpoint_is_a_third_as_large_and_no_run_goes_on_from_it(tmp_path: Path) -> None:
    fitted(tmp_path / "whole", 2, RunCheckpoints(), limit_val_batches=0)
    run = fitted(tmp_path / "light", 2, RunCheckpoints(save_weights_only=True), check_val_every_n_epoch=1)
    whole, light = (torch.load(tmp_path / name / "checkpoints" / "rollout=2.ckpt", weights_only=True) for name in ("whole", "light"))
    assert tensor_bytes(light) == tensor_bytes(light["state_dict"]) == tensor_bytes(whole["state_dict"])
    # AdamW has two numbers for each weight and one for each tensor; a head that is tied stands twice among the weights
    weights, tensors = sum(w.nbytes for w in run.subject.policy.parameters()), len(list(run.subject.policy.parameters()))
    assert tensor_bytes(whole) - tensor_bytes(light) == 2 * weights + 4 * tensors
    path = str(tmp_path / "light" / "checkpoints" / "rollout=2.ckpt")
    with pytest.raises(ValueError, match=r"written without the optimizer \(save_weights_only: true\), so no run can go on from it"):
        fitted(tmp_path / "light", 3, RunCheckpoints(), limit_val_batches=0, resume=path)
    subject = module()
    quiet_trainer(default_root_dir=tmp_path).validate(subject, datamodule=PromptData(**DATA, validation_size=8), ckpt_path=path)
    for mine, other in zip(subject.policy.parameters(), run.subject.policy.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_a_run_that_branches_off_leaves_the_files_of_its_parent(tmp_path: Path) -> None:
    fitted(tmp_path / "parent", 4, RunCheckpoints(every_rollouts=1), limit_val_batches=0)
    start = str(tmp_path / "parent" / "checkpoints" / "rollout=3.ckpt")
    fitted(tmp_path / "branch", 7, RunCheckpoints(every_rollouts=1), resume=start, limit_val_batches=0)
    assert names(tmp_path / "parent") == ["rollout=3.ckpt", "rollout=4.ckpt"]
    assert names(tmp_path / "branch") == ["rollout=6.ckpt", "rollout=7.ckpt"]


def test_a_trial_run_saves_nothing_and_says_so(tmp_path: Path) -> None:
    run = fitted(tmp_path, 3, RunCheckpoints(), fast_dev_run=True)
    assert not (tmp_path / "checkpoints").exists()
    assert checkpoint_of(run).startswith("none, because")


@pytest.mark.parametrize("setting", ["every_rollouts", "every_minutes", "keep"])
def test_limits_below_one_are_refused(setting: str) -> None:
    with pytest.raises(ValueError, match=f"RunCheckpoints needs {setting} of 1 or more, got 0"):
        RunCheckpoints(**{setting: 0})


@pytest.mark.parametrize("there", [True, False])
def test_a_run_that_was_killed_before_its_best_checkpoint_had_its_name_looks_for_one_anew(tmp_path: Path, there: bool) -> None:
    """The last checkpoint, which is written first, says already which one is the best."""
    best = tmp_path / "best-rollout=3.ckpt"
    if there:
        best.touch()
    saver = RunCheckpoints()
    saver.load_state_dict({"last": [], "best_model_path": str(best), "best_score": 0.7})
    assert (saver.best_model_path, saver.best_score) == ((str(best), 0.7) if there else ("", float("-inf")))
