"""Wheels of the core, of every plugin and of a third party's package, in an environment that knows nothing of the checkout."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest

from lightrl.cli import main
from lightrl.registry.known_packages import CORE

ROOT = Path(__file__).parents[1]
LINKS_TO_FILES = re.compile(r"\]\((?!https?:)[^)]*\)")
RUN = [
    "fit", "--config", "grpo_sort", "--rollouts", "2", "--model.policy", "TinyPolicy", "--model.policy.hidden", "16",
    "--model.lr_scheduler", "null", "--model.prompts_per_rollout", "4", "--data.train.examples", "100", "--data.validation_size", "4",
    "--trainer.enable_progress_bar", "false", "--model.algorithm.advantage", "OthersIdea",
]  # fmt: skip
"""A config of lightrl-grpo with a part of the third party."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory, copy_sources: Callable[..., None]) -> Path:
    """A folder with all wheels, built from a copy of the sources, so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheels")
    copy_sources(ROOT, folder / "source")
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


def test_every_package_has_the_licence_of_the_root() -> None:
    licence = (ROOT / "LICENSE").read_bytes()
    assert {file.parent.name: (file.parent / "LICENSE").read_bytes() for file in ROOT.glob("plugins/*/pyproject.toml")} == dict.fromkeys(
        (file.parent.name for file in ROOT.glob("plugins/*/pyproject.toml")), licence
    )


def test_every_package_says_the_same_of_itself() -> None:
    said = [tomllib.loads(file.read_text())["project"] for file in [ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]]
    for name in ("license", "license-files", "authors", "classifiers", "requires-python"):
        assert [project[name] for project in said] == [said[0][name]] * len(said)


@pytest.mark.thorough
def test_each_wheel_has_types_a_licence_and_a_page_without_files(wheels: Path) -> None:
    licence = (ROOT / "LICENSE").read_text()
    for wheel in wheels.glob("lightrl_*.whl"):
        archive = zipfile.ZipFile(wheel)
        names = archive.namelist()
        package = wheel.name.partition("-")[0].removesuffix("_core")
        assert f"{package}/py.typed" in names
        assert [archive.read(n).decode() for n in names if n.endswith("dist-info/licenses/LICENSE")] == [licence]
        metadata = message_from_string(archive.read(next(n for n in names if n.endswith("dist-info/METADATA"))).decode())
        assert (metadata["License-Expression"], metadata["Author"]) == ("Apache-2.0", "lightrl contributors")
        assert "Typing :: Typed" in metadata.get_all("Classifier", [])
        assert len(metadata["Keywords"].split(",")) > 2
        page = metadata.get_payload()
        assert isinstance(page, str)
        assert len(page) > 100
        assert LINKS_TO_FILES.findall(page) == []


@pytest.mark.parametrize("page", sorted(ROOT.glob("plugins/*/README.md")), ids=lambda page: page.parent.name)
def test_the_page_of_a_package_links_to_no_file(page: Path) -> None:
    # an index shows the page without the files beside it
    assert LINKS_TO_FILES.findall(page.read_text()) == []


@pytest.mark.thorough
@pytest.mark.parametrize("project", [".", "plugins/lightrl-moe"])
def test_a_source_distribution_has_no_tests(wheels: Path, tmp_path: Path, project: str) -> None:
    build = "import setuptools.build_meta as b, sys; print(b.build_sdist(sys.argv[1]))"
    source = wheels.parent / "source" / project
    done = subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert [name for name in names if name.startswith("tests")] == []
    assert {"LICENSE", "README.md", "pyproject.toml"} <= set(names)
    assert project != "." or {"CHANGELOG.md", "setup.py"} <= set(names)


@pytest.mark.thorough
@pytest.mark.rare
def test_a_type_checker_sees_the_parts_of_a_plugin(empty: Any) -> None:
    (empty.folder / "mine.py").write_text("from lightrl_ppo import DualClip\n\nreveal_type(DualClip)\nDualClip(cap='two')\n")
    done = empty.run("-m", "mypy", "--python-executable", str(empty.python), "--config-file=", "--follow-imports=silent", "mine.py")
    assert "lightrl_ppo" in done.stdout.splitlines()[0], done.stdout + done.stderr
    assert "mine.py:4: error: Argument" in done.stdout
    assert "import-untyped" not in done.stdout
