"""`lightrl configs`, and configs by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from lightrl.registry.installed_configs import config_named, installed_configs
from lightrl.registry.known_packages import CORE


def test_the_list_says_name_package_and_what_it_does(lightrl: Callable[..., object]) -> None:
    assert "dapo_sort" in lightrl("configs").out
    listed = {row["name"]: row for row in json.loads(lightrl("configs", "--json").out)}
    assert listed["dapo"]["distribution"] == "lightrl-dapo"
    assert listed["sft_sort"]["distribution"] == CORE
    assert listed["dapo"]["summary"].startswith("DAPO with the values of its paper")


def test_a_copy_is_the_config_and_nothing_is_overwritten(lightrl: Callable[..., object], tmp_path: Path) -> None:
    original = config_named("dapo", installed_configs()).path.read_text()
    settings = [line for line in original.splitlines() if not line.startswith("#")]
    assert lightrl("configs", "copy", "dapo").status == 0
    assert (tmp_path / "dapo.yaml").read_text() == original.replace("--config dapo", "--config dapo.yaml")
    (tmp_path / "dapo.yaml").write_text("mine")
    again = lightrl("configs", "copy", "lightrl-dapo:dapo")
    assert again.status == 2
    assert again.lines == ["lightrl configs copy lightrl-dapo:dapo: 'dapo.yaml' is already there and stays as it is.",
                           "Type another place: --out FILE"]  # fmt: skip
    assert (tmp_path / "dapo.yaml").read_text() == "mine"
    assert lightrl("configs", "copy", "dapo", "--out", "other.yaml").status == 0
    copied = (tmp_path / "other.yaml").read_text()
    assert "lightrl fit --config other.yaml" in copied
    assert [line for line in copied.splitlines() if not line.startswith("#")] == settings
    assert not (tmp_path / "other.yaml").is_symlink()


def test_copying_what_is_not_there(lightrl: Callable[..., object]) -> None:
    answer = lightrl("configs", "copy", "dappo")
    assert answer.status == 2
    assert answer.err.startswith("no installed config is named 'dappo'. Did you mean 'dapo' or ")
    assert "there is no folder 'nowhere'" in lightrl("configs", "copy", "dapo", "--out", "nowhere/dapo.yaml").err


def test_a_config_is_found_by_name_and_a_file_here_comes_first(lightrl: Callable[..., object], tmp_path: Path) -> None:
    by_name = lightrl("fit", "--config", "grpo_sort", "--model.policy", "TinyPolicy", "--print_config")
    assert by_name.status == 0, by_name.err
    assert by_name.at("model.algorithm.sampler.group_size") == 8
    assert by_name.at("rollouts") == 500
    assert lightrl("fit", "--config", "lightrl-grpo:grpo_sort", "--model.policy", "TinyPolicy", "--print_config").out == by_name.out
    (tmp_path / "grpo_sort").write_text((tmp_path / "run.yaml").read_text())
    assert lightrl("fit", "--config", "grpo_sort", "--print_config").at("rollouts") == 2


def test_a_config_that_is_not_there(lightrl: Callable[..., object]) -> None:
    mistyped = lightrl("check", "--config", "dappo")
    assert mistyped.status == 2
    assert "Did you mean 'dapo'" in mistyped.err
    assert "lightrl configs copy dapo" in lightrl("fit", "--config", "dapo.yaml").err
    assert lightrl("fit", "--config", "somewhere/dapo.yaml").status == 2


def test_two_installed_configs_are_compared_by_name(lightrl: Callable[..., object]) -> None:
    out = lightrl("diff", "grpo_sort", "dapo_sort").out
    assert "DynamicSampler" in out
    assert "GroupSampler" in out
