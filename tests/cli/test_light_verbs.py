"""Verbs that need no Lightning answer without importing it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest

from lightrl import __version__
from lightrl.cli import main
from lightrl.hookspecs import GROUP
from lightrl.registry.classes import registry
from lightrl.registry.known_packages import CORE
from lightrl.registry.loader import load_plugin

IMPORTED = "import sys; from lightrl.cli import main; status = main({words}); sys.stderr.write(' '.join(sys.modules)); sys.exit(status)"


def fresh(*words: str) -> tuple[str, set[str]]:
    """The output of a fresh process, and the modules it has imported."""
    done = subprocess.run([sys.executable, "-c", IMPORTED.format(words=list(words))], capture_output=True, text=True, check=True)
    return done.stdout, set(done.stderr.split())


@pytest.mark.parametrize("words", [["--version"], ["--help"], []])
def test_version_and_overview_import_no_torch(words: list[str]) -> None:
    out, modules = fresh(*words)
    assert "lightrl" in out
    assert not modules & {"torch", "lightning", "jsonargparse", "rich"}


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"lightrl {__version__}\n"


def test_the_module_runs_as_the_command_does() -> None:
    done = subprocess.run([sys.executable, "-m", "lightrl", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"lightrl {__version__}\n"


def test_plugins_list_imports_no_lightning() -> None:
    out, modules = fresh("plugins", "list", "--json")
    listed = {record["distribution"]: record for record in json.loads(out)}
    assert not modules & {"lightning", "transformers", "datasets", "deepspeed"}
    assert "DecoupledClip" in listed[CORE]["registers"]["clip scheme"]
    assert "GRPO" in listed["lightrl-grpo"]["registers"]["algorithm"]
    assert {record["api"] for record in listed.values()} == {GROUP}


def test_a_broken_plugin_is_listed_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    record = load_plugin(EntryPoint("broken", "no_such_module_of_a_plugin", GROUP))
    registry().records.append(record)
    try:
        assert main(["plugins", "list"]) == 0
        table = capsys.readouterr().out
        assert main(["plugins", "list", "--json"]) == 0
        listed = {r["name"]: r for r in json.loads(capsys.readouterr().out)}
    finally:
        registry().records.remove(record)
    assert "did not load" in table
    assert "no_such_module_of_a_plugin" in listed["broken"]["error"]
    assert listed["grpo"]["error"] is None


def test_an_unknown_verb_says_what_exists(lightrl: Callable[..., object]) -> None:
    answer = lightrl("ift")
    assert answer.status == 2
    assert "Did you mean 'fit'?" in answer.err
