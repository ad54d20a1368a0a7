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
from lightrl.hookspecs import GROUP
from lightrl.registry.classes import UnknownName, registry
from lightrl.registry.installed_configs import InstalledConfig, config_named, installed_configs
from lightrl.registry.known_packages import CORE

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))


def install(site: Path, distribution: str, *names: str) -> None:
    """A package that cannot be imported, with configs of these names."""
    (site / distribution / "configs").mkdir(parents=True)
    (site / distribution / "__init__.py").write_text("raise AssertionError('imported')\n")
    for name in names:
        text = f"# {name.title()} of Ho et al. 2025, done right: two\n# lines. More.\nrollouts: 3\n"
        (site / distribution / "configs" / f"{name}.yaml").write_text(text)
    info = site / f"{distribution}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{distribution} = {distribution}\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[InstalledConfig]:
    install(tmp_path, "first_of_two", "both", "first")
    install(tmp_path, "second_of_two", "both", "second")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("LIGHTRL_PLUGINS", raising=False)
    return installed_configs()


def test_every_config_of_the_repository_travels_in_one_package() -> None:
    tracked = subprocess.run(["git", "ls-files", "configs"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    wanted = [file for file in CONFIGS if not tracked or str(file.relative_to(ROOT)) in tracked]
    homes = [config.path.resolve() for config in installed_configs()]
    lost = [file.name for file in wanted if homes.count(file.resolve()) != 1]
    assert not lost, f"{lost}: link each into the folder configs of the package whose algorithm or module it names"


@pytest.mark.parametrize("config", installed_configs(), ids=lambda config: config.name)
def test_a_config_travels_with_the_algorithm_that_it_names(config) -> None:
    chosen = yaml.safe_load(config.path.read_text())["model"].get("algorithm")
    home = {cls.__name__: distribution for distribution, cls in registry().of_kind("algorithm")}
    if chosen is not None:
        assert config.distribution == home[chosen["class_path"]]


@pytest.mark.parametrize("config", installed_configs(), ids=lambda config: config.name)
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


def test_names_and_what_they_do_are_known_without_an_import(packages: list[InstalledConfig]) -> None:
    mine = [(r.name, r.distribution) for r in packages if r.distribution.endswith("_of_two")]
    assert mine == [("both", "first_of_two"), ("both", "second_of_two"), ("first", "first_of_two"), ("second", "second_of_two")]
    assert config_named("first", packages).summary == "First of Ho et al. 2025, done right"
    assert config_named("second_of_two:both", packages).path.parents[1].name == "second_of_two"


def test_a_name_of_two_packages_is_refused(packages: list[InstalledConfig]) -> None:
    with pytest.raises(UnknownName, match=r"'both'.*first_of_two:both or second_of_two:both"):
        config_named("both", packages)


def test_a_mistyped_name_suggests_near_ones(packages: list[InstalledConfig]) -> None:
    with pytest.raises(UnknownName, match=r"no installed config is named 'secnd'\. Did you mean 'second'\? All of them: lightrl configs$"):
        config_named("secnd", packages)
