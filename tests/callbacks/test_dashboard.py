"""TensorBoard gets text and images beside the curves, and other loggers do without."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightrl_workshop import SmallDigits, quiet_trainer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

from lightrl import (
    DigitSorting,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    PromptData,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.callbacks.alarms import Alarms
from lightrl.callbacks.dashboard import LAYOUT, Dashboard, layout_of
from lightrl.callbacks.histograms import Histograms


def fit(tmp_path: Path, rollouts: int, logger: Any, *callbacks: Any, rewards: Any = None) -> Trainer:
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), epochs=2),
        rewards=rewards or {"small": SmallDigits()},
        engine=TransformersEngine(max_new_tokens=6),
        prompts_per_rollout=4,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
    )
    run = quiet_trainer(max_epochs=rollouts, callbacks=callbacks, logger=logger, log_every_n_steps=1, default_root_dir=tmp_path)
    run.fit(module, datamodule=PromptData(train=DigitSorting(examples=60), validation_size=4))
    return run


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> EventAccumulator:
    """The log of a run of four rollouts."""
    folder = tmp_path_factory.mktemp("dashboard")
    run = fit(folder, 4, TensorBoardLogger(folder, name="run"), Dashboard(), Histograms(every_n_rollouts=2), Alarms())
    log = EventAccumulator(str(run.log_dir), size_guidance={"histograms": 0})
    log.Reload()
    return log


def test_every_chart_has_something_to_show_and_each_pattern_its_tag(events: EventAccumulator) -> None:
    [written] = events.Tensors("custom_scalars__config__")
    layout = Layout.FromString(written.tensor_proto.string_val[0])
    charts = {f"{c.title}: {chart.title}": list(chart.multiline.tag) for c in layout.category for chart in c.chart}
    tags = events.Tags()["scalars"]
    silent = {
        chart: pattern
        for chart, patterns in charts.items()
        for pattern in patterns
        # an alarm logs when it is raised
        if not chart.startswith("Alarms") and not any(re.match(pattern, tag) for tag in tags)
    }
    assert silent == {}
    assert {"Reward: reward, training and validation", "Completions: length of right and wrong ones", "Policy: importance ratio"} <= set(
        charts
    )
    assert charts["Reward: reward, training and validation"] == ["^(reward)$", "^(val/reward)$"]
    assert not any(chart.startswith(("Critic", "Pairs", "Sampling: groups")) for chart in charts)


def test_histograms_hold_every_value_of_their_rollout(events: EventAccumulator) -> None:
    assert {tag.removeprefix("histograms/") for tag in events.Tags()["histograms"]} >= {"advantages", "ratio", "reward", "length"}
    lengths = events.Histograms("histograms/length")
    assert [event.step for event in lengths] == [1, 3]
    assert [event.histogram_value.num for event in lengths] == [16, 16]
    means = {event.step: event.value for event in events.Scalars("completions/mean_length")}
    value = lengths[1].histogram_value
    assert value.sum / value.num == pytest.approx(means[3], abs=1e-5)
    advantages = events.Histograms("histograms/advantages")[0].histogram_value
    ratios = events.Histograms("histograms/ratio")[0].histogram_value
    # an advantage per token of the rollout, a ratio per trained token in each of the two passes
    assert advantages.num == lengths[0].histogram_value.sum
    assert 0 < ratios.num <= 2 * advantages.num
    assert value.min >= 1


@given(st.sets(st.sampled_from(["reward", "kl", "lr", "loss", "explained_variance", "perf/rollout_s", "reward_stdx", "a/b"])))
def test_a_layout_shows_what_is_logged_and_nothing_else(tags: set[str]) -> None:
    patterns = [p for charts in layout_of(tags).values() for _, listed in charts.values() for p in listed]
    assert all(any(re.match(pattern, tag) for tag in tags) for pattern in patterns)
    known = tags - {"reward_stdx", "a/b"}
    assert all(any(re.match(pattern, tag) for pattern in patterns) for tag in known)
    assert not any(re.match(pattern, tag) for pattern in patterns for tag in tags - known)


def test_accuracy_and_margin_of_preference_optimisation_have_charts() -> None:
    charts = layout_of({"rewards/accuracies", "val/rewards/accuracies", "rewards/margins", "val/rewards/margins"})["Pairs"]
    assert set(charts) == {"accuracy", "margin"}
    for title, tag in (("accuracy", "rewards/accuracies"), ("margin", "rewards/margins")):
        (pattern,) = charts[title][1]
        assert all(re.match(pattern, shown) for shown in (tag, f"val/{tag}"))


def test_titles_are_unique() -> None:
    titles = [title for charts in LAYOUT.values() for title in charts]
    assert len(titles) == len(set(titles))


def test_loggers_without_pictures_and_no_logger_at_all_are_fine(tmp_path: Path) -> None:
    extras = (Dashboard, Histograms, Alarms)
    run = fit(tmp_path, 2, CSVLogger(tmp_path, name="csv"), *(extra() for extra in extras))
    assert "reward" in (Path(str(run.log_dir)) / "metrics.csv").read_text().splitlines()[0]
    assert fit(tmp_path, 2, False, *(extra() for extra in extras)).state.finished


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="every_n_rollouts >= 1"):
        Histograms(every_n_rollouts=0)


@pytest.mark.parametrize("huge", [1e30, -1e30])
def test_low_huge_rewards_do_not_end_a_run(huge: float, tmp_path: Path) -> None:
    class Huge(SmallDigits):
        def score(self, prompt: Any, completion: str) -> float:
            return huge

    run = fit(tmp_path, 1, TensorBoardLogger(tmp_path, name="run"), Histograms(every_n_rollouts=1), rewards={"huge": Huge()})
    assert run.global_step > 0
