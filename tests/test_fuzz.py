"""`make bench CASE=fuzz` in short: mutated configs end in a clear error or in a rollout; `make thorough` tries more of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def fuzz(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.faults.fuzz", *words], cwd=folder, env=settings, capture_output=True, text=True, check=False
    )


@pytest.mark.thorough
@pytest.mark.parametrize("count", [12, pytest.param(150, marks=pytest.mark.rare)])
def test_mutated_configs_are_refused_clearly_or_run(tmp_path: Path, count: int) -> None:
    done = fuzz(tmp_path, "--count", str(count), "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "runs/fuzz/summary.json").read_text())
    assert summary["tried"] == count
    assert summary["findings"] == []
    assert summary["reached fit"] >= (count // 4 if count >= 50 else 1)
    assert sum(of_kind.get("tried", 0) for of_kind in summary["by kind"].values()) == count


FAULTY = """
import sys
from pathlib import Path

from benchmarks.faults import fuzz, fuzz_child
from benchmarks.faults.fuzz_mutations import Mutation

fuzz_child.CPU_S = 20
faults = Path("faults.py")
faults.write_text('''
from lightning.pytorch import Callback
from lightrl.config.read.refusals import ConfigError

def spins(completion):
    while True:
        pass

class Breaks(Callback):
    def on_fit_start(self, trainer, pl_module):
        raise RuntimeError("broken")

class Refuses(Callback):
    def on_fit_start(self, trainer, pl_module):
        raise ConfigError("trainer.callbacks", "too late")
''')
sys.path.insert(0, str(Path.cwd()))
scratch = Path("scratch").resolve()
scratch.mkdir()
subject = next(s for s in fuzz._subjects(scratch) if s.name == "grpo_sort")
words = {
    "none": ["--model.prompts_per_rollout=2"],
    "hang": ["--model.rewards.spins=faults.spins", "--model.rewards.spins.runs=inline"],
    "traceback": ["--trainer.callbacks+=faults.Breaks"],
    "refusal": ["--trainer.callbacks+=faults.Refuses"],
}
mutations = [(i, Mutation("grpo_sort", "moderate", name, subject.tree, given)) for i, (name, given) in enumerate(words.items())]
for _, mutation, outcome in fuzz._tried(mutations, scratch, jobs=1):
    print(mutation.says, outcome.check, outcome.finding, sep=" | ")
"""


@pytest.mark.thorough
@pytest.mark.rare
def test_a_fault_is_found(tmp_path: Path) -> None:
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", FAULTY], cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if " | " in line] == [
        "none | accepted | ",
        "hang | accepted | fit: hangs for 20 s of processor time",
        "traceback | accepted | fit: traceback",
        "refusal | accepted | fit refuses what check accepts",
    ]


@pytest.mark.parametrize("what", ["data files", "server answers", "import paths"])
def test_low_mutated_inputs_are_read_or_refused_by_name(what: str, tmp_path: Path) -> None:
    from benchmarks.faults.fuzz_inputs import tried

    assert tried(what, 0, 40, tmp_path) is None
