"""Recording: which rollouts, how much, and that it changes nothing of the run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lightrl_runs.records.record_files import read, recorded
from lightrl_runs.records.record_rollouts import RecordRollouts
from lightrl_workshop import CodePoints, quiet_trainer

from lightrl import DigitSorting, GroupRelative, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine
from lightrl.strategies.disk import size_of


def fitted(folder: Path, rollouts: int, *callbacks: RecordRollouts) -> PolicyOptimization:
    torch.manual_seed(0)
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1),
        algorithm=GroupRelative(),
        rewards={"code points": CodePoints()},
        engine=TransformersEngine(max_new_tokens=4),
        prompts_per_rollout=2,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    )
    trainer = quiet_trainer(max_epochs=rollouts, default_root_dir=folder, callbacks=callbacks)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=40)))
    return module


def test_the_first_and_every_nth_with_the_weights_before_it(tmp_path: Path) -> None:
    plain = fitted(tmp_path / "plain", 4)
    module = fitted(tmp_path / "recorded", 4, RecordRollouts(every=2, checkpoint=True))
    assert all(torch.equal(one, other) for one, other in zip(plain.parameters(), module.parameters(), strict=True))
    found = recorded(tmp_path / "recorded")
    assert list(found) == [1, 3]
    notes = [read(folder)[0].notes for folder in found.values()]
    assert [(note.rollout, note.steps, note.checkpoint) for note in notes] == [(1, 0, "checkpoint.pt"), (3, 2, "checkpoint.pt")]
    assert all((folder / "checkpoint.pt").is_file() for folder in found.values())
    assert not list((tmp_path / "recorded" / "records").glob("*/*partial*"))


def test_without_weights_the_checkpoint_of_the_run_is_named(tmp_path: Path) -> None:
    fitted(tmp_path, 1, RecordRollouts())
    (record,) = read(recorded(tmp_path)[1])
    assert record.notes.checkpoint == "../../checkpoints/rollout=0.ckpt"


def test_beyond_the_limit_the_oldest_go(tmp_path: Path) -> None:
    fitted(tmp_path, 1, RecordRollouts(every=1))
    one = size_of(tmp_path / "records")
    left = tmp_path / "run" / "records" / "rollout=1"
    left.mkdir(parents=True)
    # of a run that ended in this rollout
    (left / "checkpoint.pt").write_bytes(bytes(one))
    fitted(tmp_path / "run", 5, RecordRollouts(every=1, most_gb=2.5 * one / 10**9))
    assert not left.exists()
    assert list(recorded(tmp_path / "run")) == [4, 5]


def test_a_record_beyond_the_limit_alone_is_told_and_removed(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="the record of one rollout has .* KiB, more than most_gb 1e-06 allows"):
        fitted(tmp_path, 1, RecordRollouts(most_gb=1e-6))
    assert recorded(tmp_path) == {}


@pytest.mark.parametrize(("arguments", "said"), [({"every": 0}, "every >= 1, got 0"), ({"most_gb": 0}, "most_gb > 0, got 0")])
def test_numbers_outside_their_range_are_refused(arguments: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RecordRollouts(**arguments)
