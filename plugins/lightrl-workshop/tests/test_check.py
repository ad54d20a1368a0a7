"""`lightrl plugins check` and `show` of packages that lie where pip puts them and that break one thing each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
LEAST = ROOT / "examples" / "least-advantage"
PROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "{name}"
version = "1.0"
[project.entry-points."{group}"]
{name} = "{module}"
[tool.setuptools]
packages = ["{module}"]
[tool.setuptools.package-data]
{module} = ["configs/*.yaml"]
"""
HEAD = """
from lightrl import Advantage, Advantages, NoClip, hookimpl, broadcast_to_tokens

"""
CLIPS = """
@hookimpl
def lightrl_clip_schemes():
    return [{classes}]
"""
DOCUMENTED = '''
class {name}(NoClip):
    """A clip scheme that works."""
'''
WITH_ARGUMENT = '''
class {name}(NoClip):
    """One argument."""

    def __init__(self, {argument}):
        """
        Args:
            {described}
        """
'''
BROKEN = {
    "undocumented": (
        "lightrl.v1",
        HEAD + "class Bare(NoClip):\n    def __init__(self, limit=1.0): self.limit = limit\n" + CLIPS.format(classes="Bare"),
        ["Bare has no docstring: say in one sentence what it does"],
    ),
    "untyped": (
        "lightrl.v1",
        HEAD + WITH_ARGUMENT.format(name="Loose", argument="limit=1.0", described="limit: a number.")
        + CLIPS.format(classes="Loose"),
        ["argument 'limit' of Loose.__init__ has no type"],
    ),
    "wrong": (
        "lightrl.v1",
        HEAD + '''
class Leaky(Advantage):
    """Forgets that rows may have failed."""

    def compute(self, experience):
        return Advantages(broadcast_to_tokens(experience.rewards - experience.rewards.mean(), experience))

@hookimpl
def lightrl_advantages():
    return [Leaky]
''',
        ["Leaky (advantage) breaks its contract: 'failed rows leave the statistics'"],
    ),
    "listing": (
        "lightrl.v1",
        """
from lightrl import Advantage, Advantages, GroupNormalized, GroupRelative, LeaveOneOut, hookimpl

class Mixed(Advantage):
    \"\"\"The sum of several advantages.\"\"\"

    def __init__(self, parts: list[Advantage]) -> None:
        \"\"\"
        Args:
            parts: the advantages.
        \"\"\"
        self.parts = parts

    def compute(self, experience):
        return Advantages(sum(part.compute(experience).advantages for part in self.parts))

class Mixing(GroupRelative):
    \"\"\"GRPO with two advantages.\"\"\"

    advantage = Mixed([GroupNormalized(), LeaveOneOut()])

@hookimpl
def lightrl_algorithms():
    return [Mixing]
""",
        [
            "Mixing (algorithm) can be built in Python, and a config with it takes no step:",
            "Mixed.parts: a default has parts in it, and a config can name none in an argument of the type list[Advantage]",
            "checks of its contracts pass",
        ],
    ),
    "lacking": (
        "lightrl.v1",
        HEAD + WITH_ARGUMENT.format(name="Wanting", argument="length: int", described="length: in tokens.")
        + CLIPS.format(classes="Wanting"),
        ["Wanting was not checked", "lightrl plugins check lacking --arguments '{Wanting: {length: ...}}'"],
    ),
    "failing": ("lightrl.v1", "import no_such_module", ["it does not load: ModuleNotFoundError: No module named 'no_such_module'", "line"]),
    "empty": ("lightrl.v1", "", ["it registers nothing: decorate a function such as lightrl_advantages with lightrl.hookimpl"]),
    "newer": (
        "lightrl.v2",
        "raise SystemExit('imported')",
        ["it was written for the plugin API lightrl.v2, and this lightrl has lightrl.v1: upgrade lightrl, or install a version of it for"],
    ),
    "older": ("lightrl.v0", "raise SystemExit('imported')", ["upgrade the plugin, or install a version of it for lightrl.v1"]),
    "taking": (
        "lightrl.v1",
        HEAD + DOCUMENTED.format(name="DecoupledClip") + CLIPS.format(classes="DecoupledClip"),
        ["it registers DecoupledClip (clip scheme), and names of the core are reserved: rename the class"],
    ),
    "excusing": (
        "lightrl.v1",
        HEAD + DOCUMENTED.format(name="Excusing") + '    exceptions = {"it is fast": "it is slow"}\n' + CLIPS.format(classes="Excusing"),
        ["Excusing.exceptions names ['it is fast'], but these are the checks of its kind, clip scheme:", "  repr() names the class"],
    ),
    "twin": (
        "lightrl.v1",
        HEAD + DOCUMENTED.format(name="Same") + CLIPS.format(classes="Same"),
        ["clip scheme Same is registered by other-twin too: rename it, or a config has to say which is meant"],
    ),
    "other-twin": (
        "lightrl.v1",
        HEAD + DOCUMENTED.format(name="Same") + CLIPS.format(classes="Same"),
        ["clip scheme Same is registered by twin too"],
    ),
    "misconfigured": (
        "lightrl.v1",
        HEAD + DOCUMENTED.format(name="Fine") + CLIPS.format(classes="Fine"),
        ["config misconfigured: it does not take a step: model.algorithm.clip: no clip scheme is named 'Fin'. Did you mean 'Fine'?"],
    ),
}  # fmt: skip
FRANK = (
    HEAD
    + DOCUMENTED.format(name="Frank")
    + """
    exceptions = {
        "repr() names the class": "its name is too long",
        "its state survives a restart": "it used to forget",
    }

    def __repr__(self):
        return "F."
"""
    + CLIPS.format(classes="Frank")
)
CONFIG = """# A run.
rollouts: 1
model:
  policy: TinyPolicy
  algorithm: {class_path: lightrl.GroupRelative, init_args: {clip: Fin}}
  rewards: {digits: lightrl_workshop.toy.small_digits}
  engine: {class_path: TransformersEngine, init_args: {max_new_tokens: 4}}
  prompts_per_rollout: 2
data: {train: DigitSorting}
"""


def package(folder: Path, name: str, group: str, code: str) -> Path:
    module = f"pack_{name.replace('-', '_')}"
    configs = folder / name / module / "configs"
    configs.mkdir(parents=True)
    (folder / name / "pyproject.toml").write_text(PROJECT.format(name=name, module=module, group=group))
    (folder / name / module / "__init__.py").write_text(code)
    if name == "misconfigured":
        (configs / f"{name}.yaml").write_text(CONFIG)
    return folder / name


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, new_site: Any) -> Any:
    folder = tmp_path_factory.mktemp("broken")
    made = [package(folder, name, group, code) for name, (group, code, _) in BROKEN.items()]
    return new_site(folder / "site", [*made, package(folder, "frank", "lightrl.v1", FRANK), LEAST])


@pytest.fixture(scope="module")
def checked(site: Any) -> subprocess.CompletedProcess[str]:
    return site.lightrl("plugins", "check", *BROKEN, "frank")


@pytest.mark.thorough
@pytest.mark.parametrize("name", BROKEN)
def test_the_check_names_what_is_wrong(checked: subprocess.CompletedProcess[str], name: str) -> None:
    answer = checked.stdout.partition(f"\n{name}: " if name != next(iter(BROKEN)) else f"{name}: ")[2].partition("\nAll is well")[0]
    answer = answer.partition(f"See: lightrl plugins show {name}\n")[0]
    assert all(text in answer for text in BROKEN[name][2]), answer
    assert "  wrong  " in answer


@pytest.mark.thorough
def test_its_status_is_1(checked: subprocess.CompletedProcess[str]) -> None:
    assert checked.returncode == 1, checked.stderr


@pytest.mark.thorough
def test_arguments_make_a_class_checkable(site: Any) -> None:
    done = site.lightrl("plugins", "check", "lacking", "--arguments", "{Wanting: {length: 9}}")
    assert (done.returncode, "checks of its contracts pass" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.thorough
def test_a_stated_exception_is_said_and_passes(checked: subprocess.CompletedProcess[str]) -> None:
    lines = checked.stdout.partition("\nfrank: ")[2].splitlines()
    first = lines.index("  but    Frank: repr() names the class, a stated exception: its name is too long")
    assert not lines[first + 1].startswith("         ")
    second = lines.index("  but    Frank: its state survives a restart, a stated exception: it used to forget")
    assert lines[second + 1] == "         it passes here: remove the exception if it always does"
    assert lines[-1] == "All is well."


@pytest.mark.thorough
def test_arguments_that_nothing_reads_are_refused(site: Any) -> None:
    unknown = site.lightrl("plugins", "check", "lacking", "--arguments", "{Wanting: {lenght: 9}}")
    assert unknown.returncode == 2
    assert "Wanting.lenght: Wanting has no argument 'lenght'. Did you mean 'length'?" in unknown.stderr


@pytest.mark.thorough
def test_a_broken_plugin_is_shown_isolated_and_fatal_only_when_it_is_named(site: Any) -> None:
    words = ["fit", "--config", "grpo_sort", "--model.policy", "TinyPolicy", "--print_config", "--model.algorithm.clip"]
    listed, shown, good, ambiguous, decided, missing = site.in_turn(
        ["plugins", "list"], ["plugins", "show", "newer"], [*words, "DecoupledClip"], [*words, "Same"], [*words, "twin:Same"],
        [*words, "OfNewer"],
    )  # fmt: skip
    assert listed[0] == 0
    assert "lightrl.v2" in listed[1]
    assert "did not load: it was written for the plugin API lightrl.v2" in shown[1]
    assert (good[0], decided[0]) == (0, 0)
    assert ambiguous[0] == 2
    assert "Write other-twin:Same or twin:Same" in ambiguous[2]
    assert missing[0] == 2
    assert "no clip scheme is named 'OfNewer'" in missing[2]
    assert "did not load" in missing[2]


@pytest.mark.thorough
def test_the_environment_leaves_none_but_the_core(site: Any) -> None:
    (listed,) = site.in_turn(["plugins", "list", "--json"], LIGHTRL_PLUGINS="")
    assert [record["name"] for record in json.loads(listed[1])] == ["lightrl"]


def test_the_least_package_has_as_many_lines_as_the_page_says() -> None:
    lines = sum(len(file.read_text().splitlines()) for file in LEAST.iterdir() if file.is_file())
    assert lines <= 40
    assert f"`cat examples/least-advantage/* | wc -l`: {lines}" in " ".join((ROOT / "docs" / "plugin.md").read_text().split())


WRITTEN = (
    HEAD.replace("hookimpl, ", "")
    + DOCUMENTED.format(name="Good")
    + """

class Bare(NoClip):
    def __init__(self, limit=1.0): self.limit = limit
"""
)


@pytest.mark.thorough
def test_a_file_is_checked_as_a_package_is(tmp_path: Path) -> None:
    file = tmp_path / "written.py"
    file.write_text(WRITTEN)

    def checked(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "lightrl", "plugins", "check", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    status, said = checked("written.py")
    assert (status, "it can be imported, and has clip scheme Good, clip scheme Bare" in said) == (1, True), said
    assert "Bare has no docstring: say in one sentence what it does" in said
    status, said = checked(str(file), "--only", "Good")
    assert (status, "All is well." in said) == (0, True), said
    status, said = checked("written.py", "--only", "Goof")
    assert (status, "no class 'Goof' is checked. Did you mean 'Good'? There are: Good, Bare" in said) == (2, True), said
    assert checked("missing.py")[0] == 2
    file.write_text("import no_such_module")
    status, said = checked("written.py")
    assert (status, "it does not load: ModuleNotFoundError: No module named 'no_such_module'" in said) == (1, True), said


@pytest.mark.thorough
def test_the_least_package_works(site: Any) -> None:
    done = site.lightrl("plugins", "check", "shy")
    assert done.returncode == 0, done.stdout + done.stderr
