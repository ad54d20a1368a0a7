"""A new user's day, in an empty folder, with wheels and the installed command: a config, data, a reward, Ctrl-C, resume, export."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns(
    ".*", "build", "dist", "runs", "*.egg-info", "__pycache__", "venv", "lightning_logs", "tests", "plugins"
)  # fmt: skip
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

    @property
    def command(self) -> str:
        """The installed one."""
        return str(self.environment.folder / "bin" / "lightrl")

    def settings(self) -> dict[str, str]:
        """What a new user's shell has."""
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

    def lightrl(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        """Type a command in the folder."""
        done = subprocess.run([self.command, *words], cwd=self.folder, env=self.settings(), capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def interrupted(self, *words: str) -> str:
        """Type a command, and Ctrl-C when the first rollouts are there; what it said."""
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        run = subprocess.Popen([self.command, *words], cwd=self.folder, env=self.settings(), **pipes)
        assert run.stdout is not None
        said = ""
        while chunk := os.read(run.stdout.fileno(), 4096).decode(errors="replace"):
            said += chunk
            if re.search(r"\b[1-9]\d*/5000 ", said):
                run.send_signal(signal.SIGINT)
                break
        said += run.stdout.read().decode(errors="replace")
        assert run.wait() == 130, said
        return said


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory, new_environment: Any) -> Day:
    folder = tmp_path_factory.mktemp("first_day")
    projects = []
    for name in NEEDED:
        projects.append(folder / "source" / (Path(name).name or "core"))
        shutil.copytree(ROOT / name, projects[-1], ignore=LEFT_OUT)
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    build = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder / "dist"), *map(str, projects)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = new_environment(folder / "venv", False)
    made.pip("install", *map(str, sorted((folder / "dist").glob("*.whl"))))
    return Day(made, folder / "mine")


@pytest.mark.slow
def test_from_a_copied_config_to_a_policy_that_transformers_loads(day: Day) -> None:
    day.lightrl("configs", "copy", "grpo_sort")
    fit = ["fit", "--config", "grpo_sort.yaml", *TINY]
    said = day.interrupted(*fit, "--rollouts", "5000")
    assert "import path: my_rewards.sorted_share" in said
    assert "Resume with the same command and --ckpt_path last" in said
    rollouts = int(re.findall(r"ended before rollout (\d+)", said)[0]) + 1
    resumed = day.lightrl(*fit, "--ckpt_path", "last", "--rollouts", str(rollouts)).stderr
    assert f"rollout={rollouts}.ckpt" in resumed
    other = day.lightrl(*fit, "--rollouts", "2", "--model.algorithm", "DrGRPO", "--trainer.logger.name", "other").stderr
    kept = re.findall(r"Checkpoint: (\S+rollout=2.ckpt)", other)
    assert len(kept) == 1, other
    day.lightrl("export", "--ckpt_path", kept[0], "--out", "policy")
    loaded = day.environment.run("-c", LOAD, str(day.folder / "policy"))
    assert loaded.stdout.split() == ["LlamaForCausalLM", "True"], loaded.stderr
