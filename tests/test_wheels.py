"""Wheels of the core, of every plugin and of a third party's package, in an environment that knows nothing of the checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lightrl.cli import main
from lightrl.registry.distribution import CORE

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "runs", "*.egg-info", "__pycache__", "venv", "lightning_logs")
RUN = [
    "fit", "--config", "grpo_sort", "--rollouts", "2", "--model.policy", "TinyPolicy", "--model.policy.hidden", "16",
    "--model.lr_scheduler", "null", "--model.prompts_per_rollout", "4", "--data.train.examples", "100", "--data.validation_size", "4",
    "--trainer.enable_progress_bar", "false", "--model.algorithm.advantage", "OthersIdea",
]  # fmt: skip
"""A config of lightrl-grpo with a part of the third party."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all wheels, built from a copy of the sources, so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheels")
    shutil.copytree(ROOT, folder / "source", symlinks=True, ignore=LEFT_OUT)
    assert main(["plugins", "new", "others-idea", "--kind", "advantage", "--out", str(folder / "others")]) == 0
    projects = [folder / "source", *sorted((folder / "source" / "plugins").iterdir()), folder / "others"]
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    build = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder / "dist"), *map(str, projects)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "dist"


@pytest.fixture(scope="module")
def empty(wheels: Path, tmp_path_factory: pytest.TempPathFactory, new_environment: Any) -> Any:
    """An environment with the wheels, and the packages of this one but for those that are installed in editable form."""
    made = new_environment(tmp_path_factory.mktemp("empty") / "venv", False)
    made.pip("install", *map(str, sorted(wheels.glob("*.whl"))))
    return made


@pytest.mark.thorough
def test_each_wheel_has_its_configs_and_no_tests(wheels: Path) -> None:
    brought: list[str] = []
    for wheel in wheels.glob("*.whl"):
        names = zipfile.ZipFile(wheel).namelist()
        assert not [name for name in names if "tests/" in name]
        brought += [Path(name).name for name in names if "/configs/" in name]
    wanted = {path.name for folder in ("lightrl", "plugins") for path in (ROOT / folder).rglob("configs/*.yaml")}
    assert sorted(brought) == sorted([*wanted, "others_idea.yaml"])


@pytest.mark.thorough
def test_what_is_installed_is_found_outside_the_checkout(empty: Any) -> None:
    done = empty.lightrl("plugins", "list", "--json")
    records = {record["distribution"]: record for record in json.loads(done.stdout)}
    projects = [tomllib.loads(file.read_text())["project"]["name"] for file in ROOT.glob("plugins/*/pyproject.toml")]
    assert set(records) == {CORE, "others-idea", *projects}
    assert {record["error"] for record in records.values()} == {None}
    assert all(str(empty.folder) in record["location"] for record in records.values())


@pytest.mark.thorough
def test_a_config_by_name_trains_with_a_part_of_a_third_party(empty: Any) -> None:
    done = empty.lightrl(*RUN)
    assert done.returncode == 0, done.stderr
    assert "others_idea.OthersIdea" in next((empty.folder / "runs" / "grpo_sort").rglob("config.yaml")).read_text()


@pytest.mark.thorough
def test_templates_travel_too(empty: Any) -> None:
    done = empty.lightrl("plugins", "new", "mine", "--kind", "clip-scheme")
    assert done.returncode == 0, done.stderr
    assert (empty.folder / "mine" / "mine" / "__init__.py").is_file()
