"""The classes of the examples can be named in a config, and do what they say."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_workshop import contract_tests

from lightrl import TinyPolicy, hookimpl
from lightrl.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))
import custom_sampler  # noqa: E402
from custom_reward import in_place  # noqa: E402


class Package:
    """A package that registers the sampler."""

    @staticmethod
    @hookimpl
    def lightrl_samplers() -> list[type]:
        return [custom_sampler.MaxVariance]


test_contract = contract_tests(Package)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 4), min_size=2, max_size=7), st.data())
def test_no_other_subset_varies_more(rewards: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(2, len(rewards)))
    values = torch.tensor(rewards, dtype=torch.float64)
    found = custom_sampler.most_varied(values, count)
    assert len(set(found.tolist())) == count
    best = max(float(values[list(rows)].var(correction=0)) for rows in itertools.combinations(range(len(rewards)), count))
    assert float(values[found].var(correction=0)) == pytest.approx(best)


def test_completions_without_a_score_come_last() -> None:
    assert custom_sampler.most_varied(torch.tensor([torch.nan, 1.0, torch.nan, 0.0]), 2).tolist() == [1, 3]
    assert custom_sampler.most_varied(torch.tensor([torch.nan, 1.0, torch.nan, 0.0]), 3).tolist() in ([0, 1, 3], [1, 2, 3])


def test_the_reward_is_the_share_in_place() -> None:
    assert in_place("023479", "023479") == 1.0
    assert in_place("02", "0234") == 0.5


@pytest.mark.filterwarnings("ignore")
def test_both_are_named_in_a_config_from_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TinyPolicy(hidden=16, layers=1, heads=2).build().save(tmp_path / "policy")
    words = [
        "fit",
        "--config",
        "grpo_sort",
        "--model.rewards.close",
        "custom_reward.in_place",
        "--model.policy.path",
        str(tmp_path / "policy"),
    ]
    words += ["--model.algorithm.sampler", "custom_sampler.MaxVariance", "--model.algorithm.sampler.group_size", "4", "--rollouts", "2"]
    words += ["--trainer.logger", "false", "--trainer.enable_checkpointing", "false", "--data.validation_size", "4"]
    words += ["--data.train.examples", "200"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    assert main(words) == 0
