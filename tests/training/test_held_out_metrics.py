"""Held-out numbers as metrics of torchmetrics: lightrl's own by hand, and others that a config names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_workshop import quiet_trainer
from torchmetrics import Metric
from torchmetrics.classification import BinaryAUROC, BinaryCalibrationError
from torchmetrics.text import BLEUScore, CharErrorRate, CHRFScore

from lightrl import (
    AverageAtNScore,
    DigitSorting,
    HeldOutLoss,
    MajorityAtNScore,
    PassAtKScore,
    PreferenceAccuracy,
    Prompt,
    PromptData,
    PromptSource,
    SupervisedFineTuning,
    TextExactMatch,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.config.merge.resolve import resolve
from lightrl.config.read.refusals import ConfigError
from lightrl.config.read.settings import read_words
from lightrl.ranks import ALONE
from lightrl.training.evaluating.evaluator import Evaluation
from lightrl.training.evaluating.named_metrics import ScoreMetrics, TextMetrics

COUNT, RIGHT = torch.tensor([4, 4, 4]), torch.tensor([2, 2, 0])
VOTES = [["7", "7", "3", "3"], ["5", "6", "6", None], ["1", "2", "3", "4"]], [[1.0, 1, 0, 0], [0.0, 1, 1, 0], [0.0] * 4]
BY_HAND: list[tuple[Metric, tuple[Any, Any], float]] = [
    (AverageAtNScore(), (COUNT, RIGHT), 1 / 3),
    (PassAtKScore(2), (COUNT, RIGHT), 5 / 9),  # 1 - C(2, 2) / C(4, 2) twice, and 0
    (MajorityAtNScore(), VOTES, 0.5),  # a tie, the right one, all wrong
    (PreferenceAccuracy(), (torch.tensor([1.0, 2, 3]), torch.tensor([0.0, 2, 4])), 0.5),
    (HeldOutLoss(), (torch.tensor([-1.0, -2, -9]), torch.tensor([1.0, 3, 0])), 7 / 4),
    (TextExactMatch(), ([" 4", "5", "six"], ["4", ["5", "five"], "6"]), 2 / 3),
]


@pytest.mark.parametrize(("metric", "rows", "value"), BY_HAND, ids=lambda given: type(given).__name__ if isinstance(given, Metric) else "")
def test_metrics_by_hand_together_and_apart(metric: Metric, rows: tuple[Any, Any], value: float) -> None:
    metric.update(*rows)
    assert float(metric.compute()) == pytest.approx(value)
    metric.reset()
    other = metric.clone()
    metric.update(*(side[:1] for side in rows))
    other.update(*(side[1:] for side in rows))
    metric.merge_state(other)  # as its states are over ranks
    assert float(metric.compute()) == pytest.approx(value)


def test_an_answer_is_one_reference_and_no_list_of_letters() -> None:
    metrics = TextMetrics({"bleu": BLEUScore(n_gram=2), "error": CharErrorRate(), "chrf": CHRFScore()})
    metrics.add([("seven of them", "seven of them"), ("none at all", "none at all")])
    found = metrics.compute(ALONE)
    assert found == pytest.approx({"metrics/bleu": 1.0, "metrics/error": 0.0, "metrics/chrf": 1.0})
    assert metrics.compute(ALONE) == {}  # the rows are forgotten


def test_a_calibrated_reward_model_has_no_error() -> None:
    metrics = ScoreMetrics({"calibration": BinaryCalibrationError(n_bins=10), "auroc": BinaryAUROC()})
    metrics.add([(0.75, 1)] * 3 + [(0.75, 0)])
    assert metrics.compute(ALONE) == pytest.approx({"metrics/calibration": 0.0, "metrics/auroc": 0.5})


@pytest.mark.parametrize(("metrics", "metric"), [(TextMetrics, BinaryAUROC()), (ScoreMetrics, CHRFScore())])
def test_a_metric_of_other_rows_is_refused_by_its_name(metrics: type[Any], metric: Metric) -> None:
    with pytest.raises(ValueError, match=rf"the metric mine: {type(metric).__name__} cannot take rows such as"):
        metrics({"mine": metric})


class Unanswered(PromptSource):
    """One prompt."""

    size = 1

    def prompt(self, index: int) -> Prompt:
        return Prompt(id="p1", text="1=")


def module() -> SupervisedFineTuning:
    torch.manual_seed(0)
    return SupervisedFineTuning(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        engine=TransformersEngine(max_new_tokens=4),
        evaluation=Evaluation(metrics={"chrf": CHRFScore(), "exact": TextExactMatch()}),
    )


def validated(tmp_path: Path, held: PromptSource) -> dict[str, float]:
    trainer = quiet_trainer(default_root_dir=tmp_path)
    [found] = trainer.validate(module(), datamodule=PromptData(DigitSorting(length=3, examples=20), held))
    return dict(found)


def test_completions_are_sampled_for_metrics_without_rewards(tmp_path: Path) -> None:
    found = validated(tmp_path, DigitSorting(length=3, examples=4, seed=1))
    assert found["val/metrics/exact"] == 0
    assert 0 <= found["val/metrics/chrf"] < 1
    assert "val/loss" in found


def test_a_prompt_without_an_answer_is_left_out_and_named(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="leaves out prompts without an answer, such as 'p1'"):
        found = validated(tmp_path, Unanswered())
    assert not [name for name in found if "metrics" in name]


@pytest.mark.filterwarnings("error:evaluation.metrics")
def test_predictions_need_no_answers(tmp_path: Path) -> None:
    trainer = quiet_trainer(default_root_dir=tmp_path)
    [batch] = trainer.predict(module(), datamodule=PromptData(DigitSorting(length=3, examples=20), Unanswered()))
    assert [row["id"] for row in batch] == ["p1"]


def test_a_config_names_metrics_by_short_name_or_path() -> None:
    words = [
        "--config",
        "grpo_sort",
        "--model.evaluation.metrics.chrf.class_path",
        "CHRFScore",
        "--model.evaluation.metrics.chrf.beta",
        "1",
    ]
    resolve("fit", read_words([*words, "--model.evaluation.metrics.same", "TextExactMatch"]))
    with pytest.raises(ConfigError, match="no metric is named 'CHRFScor'"):
        resolve("fit", read_words(["--config", "grpo_sort", "--model.evaluation.metrics.chrf", "CHRFScor"]))
