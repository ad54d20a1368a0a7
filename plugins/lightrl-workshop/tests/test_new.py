"""For each kind: `plugins new`, an installation, `plugins check`, the package's own tests, and a run with its config."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lightrl.cli import main
from lightrl.kinds import KINDS

KIND_NAMES = [kind.slug for kind in KINDS.values()]
COMMAND = "command"
"""The kind that no config names."""
STEPS = """
import json, sys
from lightrl.cli import main
print("STEPS" + json.dumps({name: main(["fit", "--config", name, *words]) for name, words in json.loads(sys.argv[1]).items()}))
"""
QUIET = ["--trainer.enable_progress_bar", "false", "--trainer.logger", "false", "--trainer.enable_checkpointing", "false"]


def module(kind: str) -> str:
    return f"try_{kind.replace('-', '_')}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package of each kind."""
    folder = tmp_path_factory.mktemp("packages")
    for kind in KIND_NAMES:
        assert main(["plugins", "new", f"try-{kind}", "--kind", kind, "--out", str(folder / kind)]) == 0
    return folder


@pytest.fixture(scope="module")
def packages(made: Path, tmp_path_factory: pytest.TempPathFactory, new_site: Any) -> Any:
    """A folder in which all of them are found."""
    return new_site(tmp_path_factory.mktemp("new") / "site", [made / kind for kind in KIND_NAMES])


@pytest.fixture(scope="module")
def checked(packages: Any, made: Path) -> subprocess.CompletedProcess[str]:
    return packages.lightrl("plugins", "check", *(f"try-{kind}" for kind in KIND_NAMES[1:]), str(made / KIND_NAMES[0]))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KIND_NAMES)
def test_a_new_package_passes_the_check(checked: subprocess.CompletedProcess[str], kind: str) -> None:
    lines = checked.stdout.partition(f"try-{kind}: ")[2].splitlines()
    answer = lines[1 : next(i for i, line in enumerate(lines) if not line.startswith("  ") and i)]
    assert not [line for line in answer if "wrong" in line]
    assert kind == COMMAND or "  ok     1 of its configs take a step on a CPU" in answer
    assert any("checks of its contracts pass" in line for line in answer)


@pytest.mark.thorough
def test_the_status_of_the_check_is_0(checked: subprocess.CompletedProcess[str]) -> None:
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.thorough
@pytest.mark.rare
def test_pip_installs_each_in_editable_form(made: Path, tmp_path: Path, new_environment: Any) -> None:
    environment = new_environment(tmp_path / "venv", True)
    environment.pip("install", "--no-build-isolation", *(word for kind in KIND_NAMES for word in ("-e", str(made / kind))))
    listed = {record["distribution"]: record for record in json.loads(environment.lightrl("plugins", "list", "--json").stdout)}
    assert all(listed[f"try-{kind}"]["error"] is None for kind in KIND_NAMES)
    assert all(listed[f"try-{kind}"]["location"] == str(made / kind / module(kind) / "__init__.py") for kind in KIND_NAMES)


@pytest.mark.thorough
@pytest.mark.rare
def test_a_run_with_each_config(packages: Any, tmp_path: Path) -> None:
    words = {module(kind): [*QUIET, "--rollouts", "1"] for kind in KIND_NAMES if kind != COMMAND}
    words["try_objective"] = [*QUIET, "--trainer.max_steps", "1"]
    done = packages.run("-c", STEPS, json.dumps(words), cwd=tmp_path)
    assert json.loads(done.stdout.partition("STEPS")[2]) == dict.fromkeys(words, 0), done.stderr[-2000:]


@pytest.mark.thorough
def test_its_own_tests_pass(packages: Any, made: Path) -> None:
    own = [str(made / kind / "tests" / f"test_{module(kind)}.py") for kind in KIND_NAMES]
    contract = str(made / "advantage" / "tests" / "test_try_advantage_contract.py")
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir", str(made)]
    done = packages.run("-m", "pytest", *options, *own, contract)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_a_new_package_says_what_to_change_first(made: Path, kind: str) -> None:
    folder = made / kind
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and "egg-info" not in str(p))
    name = module(kind)
    assert [f for f in files if "__pycache__" not in f] == [
        "README.md", "pyproject.toml", f"tests/test_{name}.py", f"tests/test_{name}_contract.py",
        f"{name}/__init__.py", *([] if kind == COMMAND else [f"{name}/configs/{name}.yaml"]), f"{name}/py.typed",
    ]  # fmt: skip
    assert "## What to change first" in (folder / "README.md").read_text()
    assert not [f for f in files if "$" in (folder / f).read_text() and f.endswith((".py", ".toml", ".yaml", ".md"))]


def test_generated_code_is_formatted_and_has_no_unused_name(made: Path) -> None:
    options = ["check", "--isolated", "--no-cache", "--select", "E,F,W", "--line-length", "140", str(made)]
    done = subprocess.run([sys.executable, "-m", "ruff", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


REFUSED = {
    "an unknown kind": (["my-idea", "--kind", "clip"], "--kind: there is no kind 'clip'.", "Kinds: algorithm, sampler,"),
    "no name": (["My Idea"], "'My Idea' is no name for a package: small letters, digits and hyphens", ""),
    "a name of Python's": (["random"], "a module named 'random' is already installed", ""),
    "a name of a plugin": (["lightrl-grpo"], "a module named 'lightrl_grpo' is already installed", ""),
    "no name for a class": (["my-idea", "--class", "my_idea"], "--class: 'my_idea' is no name for a class", "such as MyIdea"),
    "a class that is registered": (["no-clip", "--kind", "clip scheme"], "lightrl-core registers a clip scheme named 'NoClip'", ""),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_made_is_refused_and_nothing_is_written(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words, *expected = REFUSED[what]
    assert main(["plugins", "new", *words]) == 2
    said = capsys.readouterr().err
    assert all(text in said for text in expected)
    assert not list(tmp_path.iterdir())


def test_the_class_may_have_a_name_of_its_own(tmp_path: Path) -> None:
    assert main(["plugins", "new", "smaug", "--class", "DPOP", "--kind", "objective", "--out", str(tmp_path)]) == 0
    assert "class DPOP(PairObjective):" in (tmp_path / "smaug" / "__init__.py").read_text()
    assert "lightrl fit --config smaug --trainer.max_steps 20" in (tmp_path / "README.md").read_text()


def test_a_folder_that_is_not_installed_or_has_no_name_is_told_of(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "new", "my-idea", "--out", str(tmp_path)]) == 0
    assert main(["plugins", "check", str(tmp_path)]) == 2
    assert "no plugin is named 'my-idea'" in capfd.readouterr().err
    (tmp_path / "pyproject.toml").write_text("[project]")
    assert main(["plugins", "check", str(tmp_path)]) == 2
    assert "it does not say which package this is: 'name'" in capfd.readouterr().err


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["plugins", "new", "my-idea", "--out", str(tmp_path)]) == 2
    assert "already there and stays as it is" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_low_a_name_that_no_file_can_have_is_refused(lightrl: Any) -> None:
    answer = lightrl("plugins", "new", "a" * 300, "--kind", "reward")
    assert answer.status == 2
    assert "File name too long" in answer.err
