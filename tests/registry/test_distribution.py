"""The distribution is called lightrl-core, is required with bounds, and does not start beside the other project called lightrl."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from lightrl import __version__, required_package
from lightrl.registry.known_packages import CORE, other_distribution

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = sorted([*ROOT.glob("plugins/*/pyproject.toml"), *ROOT.glob("examples/*/pyproject.toml")])


def test_the_distribution_brings_the_package_and_the_command() -> None:
    ours = distribution(CORE)
    assert ours.version == __version__
    assert {(entry.group, entry.name) for entry in ours.entry_points} == {
        ("console_scripts", "lightrl"),
        ("lightrl.v1", "lightrl"),
        ("lightrl.v1.commands", "lightrl"),
    }
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"] == CORE


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.parent.name)
def test_a_package_requires_it_with_bounds(project: Path) -> None:
    required = tomllib.loads(project.read_text())["project"]["dependencies"]
    assert f"{CORE}>=0.1,<0.2" in required
    assert not [word for word in required if word.split(">")[0].split("=")[0] == "lightrl"]


def test_nothing_starts_beside_the_other_project(lightrl: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert other_distribution() is None
    info = tmp_path / "site" / "lightrl-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lightrl\nVersion: 1.0.0\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    for words in (["--version"], ["check", "--config", "run.yaml"]):
        answer = lightrl(*words)
        assert answer.status == 2
        what, command = answer.lines
        assert what.startswith("the package lightrl 1.0.0 is installed beside lightrl-core")
        assert command.startswith("Type: pip uninstall --yes lightrl && pip install --force-reinstall --no-deps lightrl-core")


def test_a_part_says_which_package_to_add() -> None:
    required_package("json", "nothing", "Anything")
    with pytest.raises(
        ValueError, match=r"RayEngine needs the package no_such_ray, which is not installed. Type: pip install 'lightrl-ray\[full\]'"
    ):
        required_package("no_such_ray", "lightrl-ray[full]", "RayEngine")


HEAVY = [
    ("ray", "--model.engine", "RayEngine", ["--model.engine.engine", "TransformersEngine"], "lightrl-ray[full]"),
    ("textarena", "--model.environment", "TextArena", ["--model.environment.game", "GuessTheNumber-v0-raw"], "lightrl-gym[full]"),
    ("reasoning_gym", "--data.train", "ReasoningGym", ["--data.train.task", "chain_sum"], "lightrl-reasoning-gym[full]"),
    ("reasoning_gym", "--model.rewards.score", "ReasoningGymScore", [], "lightrl-reasoning-gym[full]"),
]


@pytest.mark.parametrize(("module", "key", "name", "words", "install"), HEAVY)
def test_a_config_that_names_what_is_not_installed(
    module: str, key: str, name: str, words: list[str], install: str, lightrl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightrl.versions.find_spec", lambda wanted: None if wanted == module else object())
    answer = lightrl("check", "--config", "run.yaml", key, name, *words)
    assert answer.status == 2
    assert (
        answer.lines[-1]
        == f"{key.removeprefix('--')}: {name} needs the package {module}, which is not installed. Type: pip install '{install}'"
    )
