"""The table of the project's packages is true, and answers a name that is not loaded."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from lightrl.kinds import COMMAND
from lightrl.registry.classes import Registry, UnknownName, registry
from lightrl.registry.installed_configs import config_named
from lightrl.registry.known_packages import CORE, known_packages, where_to_find

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"


def of_project() -> dict[str, Any]:
    return {record.distribution: record for record in registry().records if (PLUGINS / record.distribution).is_dir()}


def test_the_table_has_every_class_and_config_of_every_package() -> None:
    records = of_project()
    assert set(records) == set(known_packages()) == {folder.parent.name for folder in PLUGINS.glob("*/pyproject.toml")}
    for name, record in records.items():
        known, commands = known_packages()[name], record.of_kind(COMMAND.title)
        assert known["classes"] == sorted(n for kind, names in record.names.items() if kind != COMMAND.title for n in names), "make docs"
        assert known["commands"] == sorted(" ".join(cls.words()) for cls in commands if cls.option is None), "make docs"
        assert known["configs"] == sorted(path.stem for path in record.configs), "make docs"


@pytest.fixture
def alone() -> Registry:
    """The core without any plugin."""
    return Registry([record for record in registry().records if record.distribution == CORE])


@pytest.mark.parametrize("name", ["DAPO", "lightrl-dapo:DAPO", "lightrl_dapo.DAPO"])
def test_a_name_of_a_package_that_is_not_installed(name: str, alone: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIGHTRL_PLUGINS", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "lightrl_dapo", None)
    with pytest.raises(UnknownName, match=r"It is in the package lightrl-dapo\. Type: pip install --find-links dist lightrl-dapo"):
        alone.resolve("algorithm", name, "model.algorithm")


def test_a_config_of_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIGHTRL_PLUGINS", raising=False)
    with pytest.raises(UnknownName, match=r"It is in the package lightrl-dapo\. Type: pip install --find-links dist lightrl-dapo"):
        config_named("dapo", [])


def test_a_package_that_is_left_out_is_not_to_be_installed(alone: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIGHTRL_PLUGINS", "math")
    with pytest.raises(UnknownName, match="It is in lightrl-dapo, which LIGHTRL_PLUGINS leaves out"):
        alone.resolve("algorithm", "DAPO")


def test_a_name_that_nobody_has_is_answered_as_before(alone: Registry) -> None:
    with pytest.raises(UnknownName, match=r"no advantage is named 'GEA'. Did you mean 'GAE'\? Known:"):
        alone.resolve("advantage", "GEA")


def test_a_known_package_that_failed_says_why_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    assert where_to_find("DAPO", "classes", {"lightrl-dapo"}) == ""


def test_a_run_without_the_package_says_what_to_install(
    lightrl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, alone: Registry
) -> None:
    monkeypatch.delenv("LIGHTRL_PLUGINS", raising=False)
    monkeypatch.setattr("lightrl.config.describe.class_lookup.registry", lambda: alone)
    answer = lightrl("fit", "--config", "run.yaml")
    assert answer.status == 2
    assert "model.algorithm: no algorithm is named 'GRPO'. It is in the package lightrl-grpo." in answer.err


def test_a_package_that_needs_another_one_of_this_project_is_named_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIGHTRL_PLUGINS", raising=False)
    assert "pip install ./plugins/lightrl-servers ./plugins/lightrl-vllm)." in where_to_find("VLLMEngine", "classes", ())
    assert "pip install ./plugins/lightrl-dapo)." in where_to_find("DAPO", "classes", ())
    for name, known in known_packages().items():
        project = tomllib.loads((PLUGINS / name / "pyproject.toml").read_text())["project"]
        needed = [Requirement(text).name for text in project["dependencies"]]
        assert known.get("needs", []) == [other for other in needed if (PLUGINS / other).is_dir()], "make docs"
