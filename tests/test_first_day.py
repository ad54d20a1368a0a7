"""A new user's day, in an empty folder, with wheels: data, a reward, a run, Ctrl-C, resume, export, load.

Once with the installed command and once as a Python script; and both again after pip has installed the wheels with all that they need.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import venv
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NEEDED = ("", "plugins/lightrl-grpo", "plugins/lightrl-math")
"""The projects that the README installs."""
REWARD = """
def sorted_share(completion: str, answer: str) -> float:
    return sum(a == b for a, b in zip(completion, answer)) / len(answer)
"""
TINY = [
    "--model.policy", "TinyPolicy", "--model.policy.hidden", "16", "--model.prompts_per_rollout", "4", "--model.lr_scheduler", "null",
    "--data.train", "JsonLines", "--data.train.path", "mine.jsonl", "--data.train.chat", "false", "--data.validation_size", "4",
    "--model.rewards.share", "my_rewards.sorted_share",
]  # fmt: skip
SCRIPT = """
import sys
from lightning.pytorch import Trainer
from lightrl import JsonLines, PolicyOptimization, PromptData, TinyPolicy
from lightrl.callbacks.export_policy import ExportPolicy
from lightrl.callbacks.preemption import PreemptionCheckpoint
from lightrl.callbacks.run_checkpoints import RunCheckpoints
from my_rewards import sorted_share

rollouts, checkpoint = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
module = PolicyOptimization(
    policy=TinyPolicy(hidden=16, layers=1), algorithm="GRPO", rewards={"share": sorted_share}, prompts_per_rollout=4
)
data = PromptData(train=JsonLines(path="mine.jsonl", chat=False), validation_size=4)
callbacks = [RunCheckpoints(), PreemptionCheckpoint(), ExportPolicy("policy_of_script")]
trainer = Trainer(max_epochs=rollouts, accelerator="cpu", devices=1, callbacks=callbacks, log_every_n_steps=1)
trainer.fit(module, datamodule=data, ckpt_path=checkpoint)
"""
LOAD = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokenizer = (auto.from_pretrained(sys.argv[1]) for auto in (AutoModelForCausalLM, AutoTokenizer))
out = model.generate(**tokenizer("493027=", return_tensors="pt", return_token_type_ids=False), max_new_tokens=4)
print(type(model).__name__, out.shape[1] > 7)
"""


class Day:
    """An environment, and a folder of the user's own."""

    def __init__(self, environment: Any, folder: Path) -> None:
        self.environment, self.folder = environment, folder
        folder.mkdir()
        digits = random.Random(0)
        rows = ["".join(digits.choices("0123456789", k=6)) for _ in range(60)]
        (folder / "mine.jsonl").write_text("".join(json.dumps({"prompt": f"{r}=", "answer": "".join(sorted(r))}) + "\n" for r in rows))
        (folder / "my_rewards.py").write_text(REWARD)

    def settings(self) -> dict[str, str]:
        """What a new user's shell has."""
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

    def type(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Type a command of the environment in the folder."""
        whole = [str(self.environment.folder / "bin" / command), *words]
        done = subprocess.run(whole, cwd=self.folder, env=self.settings(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def interrupted(self, shows_rollouts: str, command: str, *words: str) -> str:
        """Type a command, and Ctrl-C when it shows that the first rollouts are there; what it said."""
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        whole = [str(self.environment.folder / "bin" / command), *words]
        run = subprocess.Popen(whole, cwd=self.folder, env=self.settings(), **pipes)
        assert run.stdout is not None
        said = ""
        while chunk := os.read(run.stdout.fileno(), 4096).decode(errors="replace"):
            said += chunk
            if re.search(shows_rollouts, said):
                run.send_signal(signal.SIGINT)
                break
        said += run.stdout.read().decode(errors="replace")
        assert run.wait() == 130, said
        return said

    def loads(self, policy: str) -> None:
        """Load a folder with transformers alone, and complete a prompt."""
        loaded = self.type("python", "-c", LOAD, policy)
        assert loaded.stdout.split() == ["LlamaForCausalLM", "True"], loaded.stderr

    def with_the_command(self) -> None:
        """From a copied config to a policy that transformers loads."""
        self.type("lightrl", "configs", "copy", "grpo_sort")
        fit = ["fit", "--config", "grpo_sort.yaml", *TINY]
        said = self.interrupted(r"\b[1-9]\d*/5000 ", "lightrl", *fit, "--rollouts", "5000")
        assert "import path: my_rewards.sorted_share" in said
        assert "Resume with the same command and --ckpt_path last" in said
        rollouts = int(re.findall(r"ended before rollout (\d+)", said)[0]) + 1
        resumed = self.type("lightrl", *fit, "--ckpt_path", "last", "--rollouts", str(rollouts)).stderr
        assert f"rollout={rollouts}.ckpt" in resumed
        assert not list(self.folder.rglob("preempted.ckpt")), "there are later checkpoints"
        other = self.type("lightrl", *fit, "--rollouts", "2", "--model.algorithm", "DrGRPO", "--trainer.logger.name", "other").stderr
        kept = re.findall(r"Checkpoint: (\S+rollout=2.ckpt)", other)
        assert len(kept) == 1, other
        # the policy was named on the command line, so that the config alone does not say which it is
        self.type("lightrl", "export", "--config", "grpo_sort.yaml", "--ckpt_path", "last", "--out", "policy")
        self.loads("policy")

    def as_a_script(self) -> None:
        """The same with a Trainer, a module and a datamodule."""
        (self.folder / "train.py").write_text(SCRIPT)
        # Lightning's bar is not shown outside of a terminal
        said = self.interrupted("First completions", "python", "train.py", "5000")
        rollouts = int(re.findall(r"ended before rollout (\d+)", said)[0]) + 1
        checkpoint = max(self.folder.glob("lightning_logs/version_0/checkpoints/*.ckpt"), key=lambda path: path.stat().st_mtime)
        resumed = self.type("python", "train.py", str(rollouts), str(checkpoint)).stderr
        assert re.search(rf"Checkpoint: \S+/version_1/checkpoints/rollout={rollouts}.ckpt", resumed), resumed
        self.loads("policy_of_script")


def wheels(folder: Path, copy_sources: Callable[..., None]) -> list[str]:
    """The projects that the README installs as wheels, built in a folder from copies of their sources."""
    projects = []
    for name in NEEDED:
        projects.append(folder / "source" / (Path(name).name or "core"))
        copy_sources(ROOT / name, projects[-1], "tests", "plugins", symlinks=False)
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    build = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder / "dist"), *map(str, projects)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(map(str, (folder / "dist").glob("*.whl")))


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory, new_environment: Any, copy_sources: Callable[..., None]) -> Day:
    """With the packages that the tests have, and the wheels in place of the checkout."""
    folder = tmp_path_factory.mktemp("first_day")
    made = new_environment(folder / "venv", False)
    made.pip("install", *wheels(folder, copy_sources))
    return Day(made, folder / "mine")


@pytest.fixture
def whole(tmp_path: Path, copy_sources: Callable[..., None]) -> Day:
    """With nothing but what pip has installed beside the wheels, from the registry that this machine is set up for."""
    # of several builds of torch the one that is here already
    torch = f"torch=={version('torch')}"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "0", "--timeout", "15"]
    asked = subprocess.run(
        [*pip, "download", "--no-deps", "-d", str(tmp_path), "tenacity", torch], capture_output=True, text=True, check=False
    )
    if asked.returncode != 0:
        pytest.skip(f"no registry gives tenacity and {torch}: {asked.stderr.strip().splitlines()[-1]}")
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    install = [
        "--python",
        str(tmp_path / "venv"),
        "install",
        "-q",
        "-c",
        str(ROOT / "constraints.txt"),
        *wheels(tmp_path, copy_sources),
        torch,
    ]
    done = subprocess.run([*pip, *install], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Day(SimpleNamespace(folder=tmp_path / "venv"), tmp_path / "mine")


@pytest.mark.thorough
def test_a_day_with_the_command(day: Day) -> None:
    day.with_the_command()


@pytest.mark.thorough
@pytest.mark.rare
def test_a_day_with_a_script(day: Day) -> None:
    day.as_a_script()


@pytest.mark.thorough
@pytest.mark.rare
def test_a_day_with_an_installation_from_the_registry(whole: Day) -> None:
    whole.with_the_command()
    whole.as_a_script()
