"""A reward that scores whole rollouts: what it reports beside its scores, what it is told, when it starts and ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_workshop import quiet_trainer

from lightrl import (
    BatchReward,
    DigitSorting,
    Function,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    PromptData,
    Rollout,
    Statistic,
    TinyPolicy,
    TransformersEngine,
    WithStatistics,
)
from lightrl.rewards.reward_set import RewardSet


class Reports(BatchReward):
    """Scores each completion's length, and reports it in several ways."""

    def __init__(self, refuses: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.refuses, self.reports = refuses, {}
        self._calls: list[str] = []
        self._asked: list[int] = []
        self._told: list[dict[str, float]] = []

    def start(self) -> None:
        self._calls.append("start")
        if self.refuses:
            raise ValueError("there is no such model")

    def close(self) -> None:
        self._calls.append("close")

    def score(self, rollout: Rollout) -> WithStatistics:
        self._calls.append("score")
        lengths = torch.tensor([float(len(text)) for text in rollout.completions])
        self._asked += lengths.int().tolist()
        ones = torch.ones(rollout.response_mask.shape)
        reports = {"length": lengths.double(), "rows": Statistic(ones[:, 0], "sum"), "tokens": Statistic(ones, "sum"), **self.reports}
        return WithStatistics(lengths, reports)

    def observe(self, statistics: Mapping[str, float]) -> None:
        self._told.append(dict(statistics))


def test_rows_behind_a_gate_are_left_out_of_what_is_reported(reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"model": Reports(gate="letters", gate_above=1.0), "letters": Function("bad_rewards.letters", runs="inline")})
    rollout = texts(["a", "abc", "ab", "aaaa"])
    scoring = rewards.submit(rollout)
    scoring.result()
    numbers = scoring.statistics()
    assert numbers["rewards/model/length"].value.tolist() == [3.0, 2.0]
    assert numbers["rewards/model/rows"].value.sum() == 2
    assert numbers["rewards/model/tokens"].value.sum() == rollout.response_mask[1:3].sum()


@pytest.mark.parametrize(
    ("reports", "words"),
    [({"share": torch.zeros(2)}, "reports 'share', which every reward has"), ({"x": torch.zeros(5)}, r"reports 'x' with the shape \[5\]")],
)
def test_what_cannot_be_reported_is_refused(reports: dict[str, Any], words: str, texts: Any) -> None:
    reward = Reports()
    reward.reports = reports
    with pytest.raises(ValueError, match=words):
        RewardSet({"model": reward}).score(texts(["a", "b"]))


def test_a_reward_that_cannot_start_stops_the_run_before_anything_is_scored(texts: Any) -> None:
    reward = Reports(refuses=True)
    rewards = RewardSet({"model": reward})
    with pytest.raises(ValueError, match="there is no such model"):
        rewards.start()
    with pytest.raises(ValueError, match="there is no such model"):
        rewards.score(texts(["a"]))
    assert "score" not in reward._calls


def test_after_each_rollout_it_is_told_of_its_rows_and_not_of_an_evaluations(tmp_path: Path) -> None:
    reward = Reports()
    subject = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4, slices=2)),
        rewards={"model": reward},
        engine=TransformersEngine(max_new_tokens=6),
        prompts_per_rollout=4,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
    )
    run = quiet_trainer(max_epochs=2, num_sanity_val_steps=0, default_root_dir=tmp_path)
    run.fit(subject, datamodule=PromptData(train=DigitSorting(examples=60), validation=DigitSorting(examples=5)))
    assert [told["rows"] for told in reward._told] == [16.0, 16.0]
    rollouts = [reward._asked[5:21], reward._asked[26:42]]
    assert len(reward._asked) == 2 * 16 + 3 * 5
    for told, lengths in zip(reward._told, rollouts, strict=True):
        assert told["length"] == pytest.approx(sum(lengths) / 16)
        assert told["mean"] == pytest.approx(told["length"])
    assert run.logged_metrics["rewards/model/length"] == pytest.approx(reward._told[-1]["length"])
    assert reward._calls[:3] == ["start", "start", "score"]
    assert reward._calls[-1] == "close"
