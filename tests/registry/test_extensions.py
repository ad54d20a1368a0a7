"""A package brings a module, a callback and a command; nothing changes until somebody names them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightrl.hookspecs import COMMANDS, GROUP

PARTS = """
import sys
from lightning.pytorch import Callback
from lightrl import PolicyOptimization, hookimpl

class Counted(PolicyOptimization):
    "Policy optimisation that says so."

    def advantage_phase(self, rollout):
        sys.stderr.write("COUNTED ")
        return super().advantage_phase(rollout)

class Loud(Callback):
    "Says when the run begins."

    # what the core's own callbacks have, and no package may use to enter runs
    in_every_run = True

    def on_train_start(self, trainer, pl_module):
        sys.stderr.write("LOUD ")

@hookimpl
def lightrl_modules():
    return [Counted]

@hookimpl
def lightrl_callbacks():
    return [Loud]
"""
VERBS = """
import sys
from lightrl import Command, hookimpl

class ShoutWord(Command):
    "Shouts."

    usage = (("WORD", "say a word in capitals"),)

    def run(self, words):
        sys.stdout.write(words[0].upper())
        return 0

@hookimpl
def lightrl_commands():
    return [ShoutWord]
"""
QUIET = ["--trainer.enable_progress_bar", "false", "--trainer.logger", "false", "--trainer.enable_checkpointing", "false"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with an installed package."""
    folder = tmp_path / "site"
    info = folder / "lightrl_loud-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lightrl-loud\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nloud = lightrl_loud\n[{COMMANDS}]\nloud = lightrl_loud_commands\n")
    (folder / "lightrl_loud.py").write_text(PARTS)
    (folder / "lightrl_loud_commands.py").write_text(VERBS)
    return folder


@pytest.fixture
def typed(site: Path, write: Callable[..., Path], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A command in a fresh process that finds the package."""

    def carry_out(*words: str, code: str = "") -> subprocess.CompletedProcess[str]:
        begin = ["-c", code] if code else ["-m", "lightrl"]
        settings = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "LIGHTRL_PLUGINS": "loud,grpo"}
        return subprocess.run([sys.executable, *begin, *words], cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)

    return carry_out


def test_a_command_is_listed_with_its_package_and_can_be_typed(typed: Callable[..., Any]) -> None:
    overview = typed("--help").stdout
    assert overview.index("From lightrl-loud:") < overview.index("lightrl shout word WORD")
    assert typed("shout", "word", "hey").stdout == "HEY"
    assert typed("lightrl-loud:shout", "word", "hey").stdout == "HEY"
    assert "lightrl shout word WORD" in typed("shout").stdout
    mistyped = typed("shout", "wrd")
    assert mistyped.returncode == 2
    assert "Did you mean 'shout word'?" in mistyped.stderr


def test_the_list_of_commands_imports_no_other_module_of_a_package(typed: Callable[..., Any]) -> None:
    code = "import sys; from lightrl.cli import main; main(['--help']); print([m for m in ('torch', 'lightrl_loud') if m in sys.modules])"
    assert typed(code=code).stdout.endswith("[]\n")


@pytest.mark.thorough
def test_a_module_and_a_callback_count_when_they_are_named_and_not_before(typed: Callable[..., Any]) -> None:
    words = ["fit", "--config", "run.yaml", "--rollouts", "1", *QUIET]
    plain = typed(*words)
    assert plain.returncode == 0, plain.stderr
    assert "COUNTED" not in plain.stderr
    assert "LOUD" not in plain.stderr
    named = typed(*words, "--model", "Counted", "--trainer.callbacks", "[Loud]")
    assert named.returncode == 0, named.stderr
    assert "COUNTED" in named.stderr
    assert "LOUD" in named.stderr
    wrong = typed(*words, "--trainer.callbacks", "[Lowd]")
    assert (wrong.returncode, "Did you mean 'Loud'?" in wrong.stderr) == (2, True)


def test_a_hook_in_a_module_where_nobody_asks_it_is_refused(typed: Callable[..., Any], site: Path) -> None:
    (site / "lightrl_loud.py").write_text(VERBS)
    shown = typed("plugins", "show", "loud").stdout
    assert "lightrl_commands is asked in modules with an entry point in the group 'lightrl.v1.commands'" in shown
