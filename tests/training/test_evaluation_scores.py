"""avg@n, pass@k and maj@n of held-out prompts, in total and by category."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_workshop import quiet_trainer
from lightrl_workshop.experience import experience

from lightrl import (
    DigitSorting,
    Experience,
    GroupRelative,
    PolicyOptimization,
    Prompt,
    PromptData,
    PromptSource,
    RowReward,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.training.evaluating.evaluator import Evaluation, report_samples
from lightrl.training.reports.statistics import StatisticsLedger

SAYS = {0: "7 7 3 3", 1: "5 6 6 -", 2: "1 2 3 4"}
"""Answers of four completions per prompt; `-` gives none."""
RIGHT = {0: "7", 1: "6", 2: "9"}


class Said(RowReward):
    """1 for the right answer; `!` fails."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, answer: str) -> float:
        return float(completion == answer)

    def answer_in(self, completion: str) -> str | None:
        return None if completion == "-" else completion


class Mute(Said):
    """Scores, and does not say which answer it has read."""

    answer_in = RowReward.answer_in


def scored(scores: list[float] | None = None) -> Experience:
    """Three prompts with four completions each."""
    given = [answer for said in SAYS.values() for answer in said.split()]
    group = [prompt for prompt in SAYS for _ in range(4)]
    right = [float(answer == RIGHT[prompt]) for prompt, answer in zip(group, given, strict=True)]
    rows = experience(right if scores is None else scores, group=group)
    rows.completions = given
    rows.prompts = [Prompt(id=str(g), text="?", columns={"level": "easy" if g < 2 else "hard"}) for g in group]
    return rows


def report(scores: list[float] | None = None, reward: RowReward | None = None, **settings: Any) -> dict[str, float]:
    """Their statistics."""
    ledger = StatisticsLedger()
    report_samples(ledger, scored(scores), Evaluation(samples=4, **settings), "score", reward or Said())
    return ledger.reduce(lambda mine: [mine])


def test_scores_by_hand() -> None:
    # right of four: 2, 2, 0; pass@2 = 1 - C(2, 2) / C(4, 2) = 5/6 twice and 0; votes: a tie, the right one, all wrong
    assert report(pass_at=[1, 2, 4]) == pytest.approx({"avg@4": 1 / 3, "pass@1": 1 / 3, "pass@2": 5 / 9, "pass@4": 2 / 3, "maj@4": 0.5})


def test_categories_stand_apart_with_their_sizes() -> None:
    found = report(category="level", pass_at=[2])
    assert found["categories/easy/avg@4"] == pytest.approx(0.5)
    assert found["categories/easy/pass@2"] == pytest.approx(5 / 6)
    assert found["categories/easy/maj@4"] == pytest.approx(0.75)
    assert found["categories/hard/maj@4"] == 0
    assert (found["categories/easy/prompts"], found["categories/hard/prompts"]) == (2, 1)
    assert "categories/without colour/avg@4" in report(category="colour")


def test_a_completion_without_a_verdict_is_no_sample() -> None:
    nan = float("nan")
    found = report(scores=[1, nan, 0, nan, 1, nan, nan, nan, nan, nan, nan, nan], pass_at=[1, 2])
    assert found["avg@4"] == pytest.approx((0.5 + 1) / 2)
    assert found["pass@2"] == 1.0  # of the first prompt alone: the second has one sample left
    assert found["pass@1"] == pytest.approx(0.75)


def test_what_is_right_is_a_bound_on_the_raw_score() -> None:
    scores = [0.2, 0.4, 0.6, 0.8] * 3
    assert report(scores=scores)["avg@4"] == 1
    assert report(scores=scores, right_above=0.5)["avg@4"] == 0.5


def test_a_reward_that_reads_no_answers_has_no_votes() -> None:
    assert set(report(reward=Mute())) == {"avg@4", "pass@2", "pass@4"}


@pytest.mark.parametrize(
    ("settings", "what"), [({"samples": 0}, "samples >= 1, got samples=0"), ({"samples": 4, "pass_at": [2, 8]}, r"pass_at has \[8\]")]
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Evaluation(**settings)


@given(st.integers(0, 3), st.sampled_from([None, "level"]))
def test_it_does_not_matter_which_rank_has_which_prompt(cut: int, category: str | None) -> None:
    rows, settings = scored(), Evaluation(samples=4, category=category)
    whole, first, second = StatisticsLedger(), StatisticsLedger(), StatisticsLedger()
    report_samples(whole, rows, settings, "score", Said())
    report_samples(first, rows.select(range(4 * cut)), settings, "score", Said())
    report_samples(second, rows.select(range(4 * cut, 12)), settings, "score", Said())
    first.merge(second)
    together, apart = (ledger.reduce(lambda mine: [mine]) for ledger in (whole, first))
    assert apart == pytest.approx(together)


class Held(PromptSource):
    """Twelve prompts of two kinds."""

    size = 12

    def prompt(self, index: int) -> Prompt:
        return Prompt(id=str(index), text=f"{index % 10}=", answer=str(index % 10), columns={"kind": "ab"[index % 3 == 0]})


def validated(tmp_path: Path, **settings: Any) -> dict[str, float]:
    torch.manual_seed(0)
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(),
        rewards={"tone": Said(weight=0.5), "said": Said()},
        engine=TransformersEngine(max_new_tokens=1),
        evaluation=Evaluation(samples=8, category="kind", correct="said", **settings),
    )
    run = quiet_trainer(default_root_dir=tmp_path)
    [found] = run.validate(module, datamodule=PromptData(train=DigitSorting(examples=20), validation=Held()), verbose=False)
    return dict(found)


def test_a_validation_draws_as_it_is_told_and_adds_up(tmp_path: Path) -> None:
    warm, cold = validated(tmp_path), validated(tmp_path, temperature=0.0)
    for found in (warm, cold):
        assert found["val/avg@8"] == pytest.approx(found["val/rewards/said/mean"], abs=1e-6)
        kinds = [found[f"val/categories/{kind}/prompts"] * found[f"val/categories/{kind}/avg@8"] for kind in "ab"]
        assert found["val/avg@8"] == pytest.approx(sum(kinds) / 12, abs=1e-6)
        assert [found[f"val/pass@{k}"] for k in (2, 4, 8)] == sorted(found[f"val/pass@{k}"] for k in (2, 4, 8))
    # eight equal completions: one of them is right only if all are
    assert cold["val/pass@8"] == cold["val/avg@8"] == cold["val/maj@8"]
    assert warm["val/pass@8"] > warm["val/avg@8"] > 0


def test_a_judge_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"evaluation\.correct .*'rihgt', .*said"):
        PolicyOptimization(policy=TinyPolicy(), algorithm=GroupRelative(), rewards={"said": Said()}, evaluation=Evaluation(correct="rihgt"))
