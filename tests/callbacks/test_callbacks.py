"""A run shows sizes at the start, a bar that counts rollouts, and completions as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightrl_workshop import FewCharacters, quiet_trainer, random_rollout
from lightrl_workshop.experience import experience
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightrl import (
    DigitSorting,
    ExactMatch,
    GroupRelative,
    GroupSampler,
    LinearWeight,
    PolicyOptimization,
    Prompt,
    PromptData,
    RowReward,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.callbacks.completions_log import CompletionsLog, completions_table, terminal_lines
from lightrl.callbacks.rollout_progress import RolloutProgress
from lightrl.callbacks.run_start import SizesTable, sizes_table
from lightrl.rewards.reward_set import RewardSet
from lightrl.training.evaluating.evaluator import Evaluation
from lightrl.types import Outcome


def module(**changes: Any) -> PolicyOptimization:
    return PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(**{"sampler": GroupSampler(group_size=4), "minibatches": 2, "epochs": 2, **changes}),
        rewards={"short": FewCharacters()},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=6,
        micro_batch_tokens=100,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
    )


def fit(tmp_path: Path, rollouts: int, *callbacks: Any, ckpt_path: str | None = None, **changes: Any) -> Trainer:
    run = quiet_trainer(
        max_epochs=rollouts,
        callbacks=callbacks,
        num_sanity_val_steps=0,
        logger=TensorBoardLogger(tmp_path, name="run"),
        log_every_n_steps=1,
        **changes,
    )
    run.fit(module(), datamodule=PromptData(train=DigitSorting(examples=60), validation_size=8), ckpt_path=ckpt_path)
    return run


def test_the_table_of_sizes_does_the_arithmetic() -> None:
    console = Console(width=120, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(sizes_table(module(), 10))
    lines = console.export_text().splitlines()
    assert any("prompts x group = rows" in line and "6 x 4 = 24" in line for line in lines)
    assert any("optimizer steps" in line and "2 x 2 = 4" in line for line in lines)
    assert any("rows per optimizer step" in line and line.rstrip().endswith("12") for line in lines)
    assert any("10 (40 optimizer steps, 240 completions)" in line for line in lines)
    of_rows = sizes_table(module(minibatches=5, minibatch_of="rows"), 10)
    assert list(of_rows.columns[1].cells)[2] == "4"


def test_the_bar_counts_rollouts_also_after_a_resume(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # as on a terminal
    monkeypatch.setattr("lightrl.callbacks.rollout_progress.SECONDS_BETWEEN_LINES", 0.0)
    run = fit(tmp_path, 2, RolloutProgress(), SizesTable(), enable_checkpointing=False)
    run.save_checkpoint(tmp_path / "x.ckpt")
    shown = "".join(capfd.readouterr())
    assert "2/2" in shown
    assert "reward=" in shown
    assert "length=" in shown
    assert "Rollouts (evaluating)" in shown
    assert "prompts x group = rows" in shown
    bar = RolloutProgress()
    fit(tmp_path, 5, bar, ckpt_path=str(tmp_path / "x.ckpt"), enable_checkpointing=False)
    shown = "".join(capfd.readouterr())
    assert "2/5" in shown
    assert "5/5" in shown
    assert bar.train_progress_bar.n == bar.train_progress_bar.total == 5


def test_the_bar_shows_the_reward_that_decides_beside_the_sum(tmp_path: Path) -> None:
    bar = RolloutProgress()
    several = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=module().algorithm,
        rewards={"short": FewCharacters(), "right": ExactMatch(weight=10.0)},
        engine=TransformersEngine(max_new_tokens=8),
        evaluation=Evaluation(correct="right"),
        prompts_per_rollout=6,
    )
    run = quiet_trainer(max_epochs=1, callbacks=[bar], enable_checkpointing=False)
    run.fit(several, datamodule=PromptData(train=DigitSorting(examples=60), validation_size=8))
    shown = bar.get_metrics(run, several)
    assert float(str(shown["right"])) == pytest.approx(several.numbers["rewards/right/mean"], abs=1e-2)
    assert {"reward", "right", "val", "val_right"} <= set(shown)
    assert "short" not in shown


def test_a_log_file_does_not_grow_with_every_step(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fit(tmp_path, 30, RolloutProgress(), enable_checkpointing=False)
    shown = capfd.readouterr().out
    assert shown.count("Rollouts") < 10
    assert "30/30" in shown.split("\r")[-1]


def test_completions_stand_in_tensorboard_with_their_rewards(tmp_path: Path) -> None:
    run = fit(tmp_path, 3, CompletionsLog(every_n_rollouts=2), enable_progress_bar=False, enable_checkpointing=False)
    events = EventAccumulator(run.log_dir)
    events.Reload()
    assert {"completions/text_summary", "val/completions/text_summary"} <= set(events.Tags()["tensors"])
    logged = events.Tensors("completions/text_summary")
    assert [event.step for event in logged] == [1, 3]
    text = logged[0].tensor_proto.string_val[0].decode()
    assert text.splitlines()[0] == "prompt | completion | finish | tokens | short: score → brings | reward | advantage"
    assert len(text.splitlines()) == 2 + 8


def test_a_table_keeps_its_columns_whatever_a_completion_says() -> None:
    rollout = random_rollout(TinyPolicy(hidden=16, layers=1, heads=2).build())
    rollout.completions[0] = "a|b`c\nd" + "x" * 2000
    lines = completions_table(rollout, 3).splitlines()
    assert len(lines) == 5
    assert lines[2].replace("\\|", "").count("|") == 3
    assert "(2007 characters)" in lines[2]


def test_a_table_says_why_there_is_no_score() -> None:
    rows = experience([1.5, 0.0, 0.0, 0.0, 0.0], lengths=[1] * 5)
    rows.outcomes["score"] = torch.tensor([Outcome.VALUE, Outcome.ABSTAINED, Outcome.GATED, Outcome.ERROR, Outcome.TIMEOUT])
    cells = [line.split(" | ")[4] for line in completions_table(rows, 5).splitlines()[2:]]
    assert cells == ["1.5", "abstained", "gated", "error", "timeout"]


class Fixed(RowReward):
    """The number in the completion at this place; `-` abstains, `!` raises."""

    runs = "inline"

    def __init__(self, place: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.place = place

    def score(self, prompt: Prompt, completion: str) -> float | None:
        said = completion.split()[self.place]
        return None if said == "-" else float(said)


def test_a_table_says_what_each_reward_brought_into_the_sum() -> None:
    rewards = RewardSet(
        {
            "right": Fixed(0, weight=2.0, schedule=LinearWeight(1.0, 0.0, 4)),
            "style": Fixed(1, weight=0.5, normalize="group"),
            "extra": Fixed(2, gate="right"),
        }
    )
    rows = experience([0.0] * 5, lengths=[1] * 5, group=[0] * 5)
    rows.completions = ["1 1 0.25", "0 3 9", "1 5 -", "0 ! 9", "- - 9"]
    scored = rewards.score(rows)
    rows = replace(rows, reward_parts=scored.reward_parts, outcomes=scored.outcomes, scorable=scored.scorable)
    rows.rewards, rows.advantages = torch.tensor([1.75, 0.0, 2.5, 0.0, 0.0]), torch.full_like(rows.advantages, 0.5)
    # style's group has 1, 3, 5: z = -1, 0, 1; the weight of `right` began at 2 and stands at 1.5 after one rollout
    rewards.after_rollout()
    cells = [line.split(" | ")[4:] for line in completions_table(rows, 5, rewards.contributions(rows, rollouts=0)).splitlines()]
    assert cells[0] == ["right: score → brings", "style: score → brings", "extra: score → brings", "reward", "advantage"]
    assert cells[2] == ["1 → +2", "1 → -0.5", "0.25 → +0.25", "+1.75", "+0.500"]
    assert cells[3] == ["0 → +0", "3 → +0", "gated → +0", "+0", "+0.500"]
    assert cells[4] == ["1 → +2", "5 → +0.5", "abstained", "+2.5", "+0.500"]
    assert cells[5] == ["0", "error", "gated", "unscorable", "+0.500"]
    assert cells[6] == ["abstained", "abstained", "abstained", "unscorable", "+0.500"]
    later = completions_table(rows, 1, rewards.contributions(rows)).splitlines()[2].split(" | ")
    assert later[4] == "1 → +1.5"
    assert "right 1 → +2, style 1 → -0.5, extra 0.25 → +0.25, reward +1.75, advantage +0.500" in terminal_lines(
        rows, 1, rewards.contributions(rows, rollouts=0)
    )


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="every_n_rollouts >= 1"):
        CompletionsLog(every_n_rollouts=0)
