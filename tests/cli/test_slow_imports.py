"""Nothing begins in silence: a line is out before torch or Lightning is imported, on every verb, on a terminal."""

from __future__ import annotations

import gc
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightrl.cli import SLOW, naming_slow_imports
from lightrl.registry.commands import Commands

WORDS = {
    "generate": ["--policy", ".", "--prompt", "1="],
    "sample": ["--config", "run.yaml", "--prompts", "1", "--n", "1", "--keep", "all", "--out", "out.jsonl"],
    "export": ["--config", "run.yaml", "--ckpt_path", "x.ckpt", "--out", "policy"],
    "report": ["."],
    "replay": ["."],
    "explain": ["GRPO"],
    "diff": ["GRPO", "DrGRPO"],
    "plugins list": [],
    "plugins show": ["grpo"],
    "plugins new": ["my-idea"],
    "plugins check": ["grpo"],
    "reward test": ["--config", "run.yaml", "--data", "run.yaml"],
    "reward pairs": ["--config", "run.yaml", "--data", "run.yaml"],
    "algorithms": [],
}
"""The words after a verb that needs others than a config."""
QUICK = {"configs", "push", "recommend"}
"""Verbs that import nothing slow."""
STOPPED = 99
ROOT = Path(__file__).parents[2]


@pytest.fixture
def stopped_at_import(tmp_path: Path) -> dict[str, str]:
    """An environment in which a slow library ends the process as soon as it is imported."""
    for module in SLOW:
        (tmp_path / f"{module}.py").write_text(f"import os\nos._exit({STOPPED})\n")
    return {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def on_a_terminal(words: list[str], environment: dict[str, str], folder: Path) -> tuple[int, str]:
    """The status of a command that is typed in a terminal, and all that it shows."""
    terminal, end = pty.openpty()
    typed = subprocess.Popen([sys.executable, "-m", "lightrl", *words], stdin=end, stdout=end, stderr=end, env=environment, cwd=folder)
    os.close(end)
    shown = b""
    try:
        while piece := os.read(terminal, 4096):
            shown += piece
    except OSError:  # Linux: the other end is closed
        os.close(terminal)
    return typed.wait(), shown.decode()


@pytest.mark.parametrize("verb", sorted({*Commands().names} - QUICK))
def test_a_line_is_out_before_anything_slow_is_imported(verb: str, stopped_at_import: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("rollouts: 1\n")
    words = [*verb.split(), *WORDS.get(verb, ["--config", "run.yaml"])]
    status, shown = on_a_terminal(words, stopped_at_import, tmp_path)
    if verb in ("plugins list", "plugins show"):
        # the first that imports it is a plugin, which then does not load
        assert f"os._exit({STOPPED})" in shown
        shown = shown.partition("\n")[0]
    else:
        assert status == STOPPED, shown
    assert shown.strip() in {f"loading {module} ..." for module in SLOW}


@pytest.mark.parametrize("verb", ["fit", "validate", "test", "predict", "check"])
@pytest.mark.parametrize(
    ("words", "wanted"), [(["--config", "dapoo"], "'dapo'"), (["--config", "bad.yaml"], "bad.yaml:2"), (["dapo"], "--config")]
)
def test_a_config_that_cannot_be_read_is_refused_at_once(
    verb: str, words: list[str], wanted: str, stopped_at_import: dict[str, str], tmp_path: Path
) -> None:
    """A mistyped name took as long as the imports of torch and Lightning."""
    (tmp_path / "bad.yaml").write_text("rollouts: [1\n")
    status, shown = on_a_terminal([verb, *words], stopped_at_import, tmp_path)
    assert status == 2, shown
    assert wanted in shown
    assert "loading" not in shown


def test_there_is_one_line_however_much_is_loaded(tmp_path: Path) -> None:
    for module in SLOW[:3]:
        (tmp_path / f"{module}.py").write_text("")
    code = (
        "from lightrl.cli import naming_slow_imports\nwith naming_slow_imports():\n    import torch, lightning, transformers\nprint('done')"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (done.stderr, done.stdout) == ("loading torch ...\n", "done\n")


def test_what_is_loaded_already_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    before = list(sys.meta_path)
    with naming_slow_imports():
        import lightning  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
    assert capsys.readouterr().err == ""
    assert sys.meta_path == before


def test_one_process_of_a_run_speaks_for_all(stopped_at_import: dict[str, str], tmp_path: Path) -> None:
    status, shown = on_a_terminal(["algorithms"], {**stopped_at_import, "LOCAL_RANK": "1"}, tmp_path)
    assert (status, shown) == (STOPPED, "")


def test_ctrl_c_while_a_command_starts_leaves_no_traceback(stopped_at_import: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise KeyboardInterrupt\n")
    status, shown = on_a_terminal(["algorithms"], stopped_at_import, tmp_path)
    assert (status, shown.split()) == (130, ["loading", "torch", "...", "Ctrl-C:", "ended."])


LOOKS = """
import gc, json
from lightning.pytorch import Callback

class Looks(Callback):
    def on_train_end(self, trainer, pl_module):
        with open("looks.json", "w") as file:
            json.dump([gc.isenabled(), gc.get_freeze_count()], file)
"""


def test_a_run_looks_for_unused_objects_among_its_own(lightrl: Callable[..., Any], write: Callable[..., Path], tmp_path: Path) -> None:
    write("own_looks.py", LOOKS)
    assert lightrl("fit", "--config", "run.yaml", "--trainer.callbacks+=own_looks.Looks").status == 0
    enabled, left_alone = json.loads((tmp_path / "looks.json").read_text())
    assert enabled
    assert left_alone > 100_000
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, 0)


PART = """
from lightrl import Advantage, Advantages, Experience, broadcast_to_tokens


class Plain(Advantage):
    \"\"\"The reward.\"\"\"

    def compute(self, experience: Experience) -> Advantages:
        return Advantages(broadcast_to_tokens(experience.rewards, experience))
"""


@pytest.mark.parametrize("more", ["", "class Mean(TokenMean):\n    'Another mean.'\n", "class Helper:\n    'No part.'\n"])
def test_the_check_of_a_part_needs_no_lightning(more: str, tmp_path: Path) -> None:
    """Importing it took most of the time of `plugins check my_file.py`, twice."""
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for module in ("lightning", "transformers"):
        (blocked / f"{module}.py").write_text(f"import os\nos._exit({STOPPED})\n")
    (tmp_path / "mine.py").write_text("from lightrl import TokenMean\n" + PART + "\n\n" + more)
    command = [sys.executable, "-m", "lightrl", "plugins", "check", "mine.py"]
    environment = {**os.environ, "PYTHONPATH": str(blocked)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "All is well." in done.stdout) == (0, True), done.stdout + done.stderr
    assert "loading torch ..." in done.stderr
