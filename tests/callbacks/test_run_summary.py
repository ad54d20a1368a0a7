"""The table at the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightrl_workshop import quiet_trainer

from lightrl import DigitSorting, ExactMatch, GroupRelative, GroupSampler, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine
from lightrl.callbacks.run_summary import RunSummary
from lightrl.training.evaluating.evaluator import Evaluation


def run(folder: Path, rollouts: int, ckpt_path: str | None = None) -> tuple[Any, list[list[str]]]:
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=GroupSampler(2)),
        rewards={"correct": ExactMatch()},
        engine=TransformersEngine(max_new_tokens=4),
        prompts_per_rollout=4,
        evaluation=Evaluation(samples=2),
    )
    summary = RunSummary()
    trainer = quiet_trainer(max_epochs=rollouts, callbacks=[summary], default_root_dir=folder)
    data = PromptData(train=DigitSorting(length=3, examples=64), validation_size=4)
    trainer.fit(module, datamodule=data, ckpt_path=ckpt_path)
    table = summary.table(trainer, module)
    trainer.save_checkpoint(folder / "end.ckpt")
    return summary, [[str(column.header), *map(str, column.cells)] for column in table.columns]


def test_a_resumed_run_shows_the_start_of_the_whole_run_and_all_of_its_seconds(tmp_path: Path) -> None:
    first, shown = run(tmp_path, 1)
    assert [column[0] for column in shown] == ["held out", "at the start", "after rollout 1"]
    assert {"avg@2", "rewards/correct/mean"} <= set(shown[0])
    first._started -= 1000.0
    state = first.state_dict()
    again, resumed = run(tmp_path, 2, str(tmp_path / "end.ckpt"))
    assert [column[0] for column in resumed] == ["held out", "at the start", "after rollout 2"]
    assert resumed[1] == shown[1]
    assert again.state_dict()["seconds"] > 0
    again.load_state_dict(state)
    assert again.state_dict()["seconds"] > 1000
