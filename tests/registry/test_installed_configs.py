"""Each config of the repository travels in the package that it belongs to, and is found by its name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from lightrl.config.describe.algorithms import parts_in
from lightrl.config.merge.resolve import resolve
from lightrl.config.read.settings import read_words
from lightrl.registry.classes import Registry, UnknownName, registry
from lightrl.registry.installed_configs import config_named, installed_configs
from lightrl.registry.known_packages import CORE
from lightrl.registry.loader import PluginRecord

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))


def record(tmp_path: Path, distribution: str, *names: str, error: str | None = None) -> PluginRecord:
    folder = tmp_path / distribution
    folder.mkdir()
    for name in names:
        (folder / f"{name}.yaml").write_text(f"# {name.title()} of Ho et al. 2025, done right: two\n# lines. More.\nrollouts: 3\n")
    return PluginRecord(distribution, distribution, "1.0", configs=sorted(folder.glob("*.yaml")), error=error)


@pytest.fixture
def packages(tmp_path: Path) -> Registry:
    return Registry(
        [
            record(tmp_path, "one", "both", "first"),
            record(tmp_path, "two", "both", "second"),
            record(tmp_path, "broken", "lost", error="ValueError: no"),
        ]
    )


def test_every_config_of_the_repository_travels_in_one_package() -> None:
    tracked = subprocess.run(["git", "ls-files", "configs"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    wanted = [file for file in CONFIGS if not tracked or str(file.relative_to(ROOT)) in tracked]
    homes = [config.path.resolve() for config in installed_configs(registry())]
    lost = [file.name for file in wanted if homes.count(file.resolve()) != 1]
    assert not lost, f"{lost}: link each into the folder configs of the package whose algorithm or module it names"


@pytest.mark.parametrize("config", installed_configs(registry()), ids=lambda config: config.name)
def test_a_config_travels_with_the_algorithm_that_it_names(config) -> None:
    chosen = yaml.safe_load(config.path.read_text())["model"].get("algorithm")
    home = {cls.__name__: distribution for distribution, cls in registry().of_kind("algorithm")}
    if chosen is not None:
        assert config.distribution == home[chosen["class_path"]]


@pytest.mark.parametrize("config", installed_configs(registry()), ids=lambda config: config.name)
def test_a_config_says_which_packages_it_needs(config) -> None:
    resolved = resolve("fit", read_words(["--config", str(config.path)]), complete=False)
    brought_by = {cls: r.distribution for r in registry().records for classes in r.classes.values() for cls in classes}
    # an optimizer is named by its import path, and registered by nobody
    home = {r.module.partition(".")[0]: r.distribution for r in registry().records}
    classes = [part.cls for section in (resolved.model, resolved.data) for _, part in parts_in(section, "")]
    named = {brought_by.get(cls, home.get(cls.__module__.partition(".")[0])) for cls in classes}
    needed = ", ".join(sorted((named | {config.distribution}) - {None, CORE}))
    assert re.findall(r"^# Needs: (.*)\.$", config.path.read_text(), re.MULTILINE) == [needed or "no package beside the core"]


def test_no_config_stands_twice() -> None:
    copies = [p for folder in ("lightrl", "plugins") for p in (ROOT / folder).rglob("configs/*.yaml") if not p.is_symlink()]
    assert not copies


def test_names_and_what_they_do(packages: Registry) -> None:
    assert [(r.name, r.distribution) for r in installed_configs(packages)] == [
        ("both", "one"), ("both", "two"), ("first", "one"), ("second", "two")]  # fmt: skip
    assert config_named(packages, "first").summary == "First of Ho et al. 2025, done right"
    assert config_named(packages, "two:both").path.parent.name == "two"


def test_a_name_of_two_packages_is_refused(packages: Registry) -> None:
    with pytest.raises(UnknownName, match=r"'both'.*one:both or two:both"):
        config_named(packages, "both")


def test_a_mistyped_name_suggests_near_ones_and_says_what_did_not_load(packages: Registry) -> None:
    with pytest.raises(UnknownName) as caught:
        config_named(packages, "secnd")
    assert str(caught.value) == (
        "no installed config is named 'secnd'. Did you mean 'second'? All of them: lightrl configs\n"
        "Plugin 'broken' (broken 1.0) did not load: ValueError: no. See: lightrl plugins show broken"
    )
