"""How runs in real processes end: SIGTERM, a rank that fails, a rank that does not answer."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lightrl.strategies.checkpoint_files import check

REWARDS = """
import os
import signal
import time
from pathlib import Path
import torch
from lightning.pytorch import Callback

def rank():
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0

def training():
    return bool(list(Path("runs").rglob("*.ckpt")))

class EarlySignal(Callback):
    def on_train_start(self, trainer, pl_module):
        os.kill(os.getpid(), signal.SIGTERM)

def slow(completion):
    Path("scoring").touch()
    time.sleep(0.02)
    return float(len(completion))

def fails_on_first(completion):
    if training() and rank() == 0:
        raise SystemError("no luck here")
    return float(len(completion))

def fails_on_second(completion):
    if training() and rank() == 1:
        raise SystemError("no luck here")
    return float(len(completion))

def hangs_on_second(completion):
    if training() and rank() == 1:
        time.sleep(600)
    return float(len(completion))
"""


def _of_process(pid: int, what: str) -> str:
    """A file of a process; nothing once that has ended."""
    try:
        return Path(f"/proc/{pid}/{what}").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Run:
    """`lightrl fit` in a process group of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder), "MASTER_ADDR": "127.0.0.1"}
        environment.pop("LOCAL_RANK", None)
        self.folder, self.file = folder, folder / "said.txt"
        with self.file.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "lightrl", "fit", "--config", "run.yaml", *words],
                cwd=folder, env=environment, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self.file.read_text(errors="replace")

    def wait_for(self, condition: Callable[[], Any], seconds: float = 180) -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, self.said
            assert self.process.poll() is None or condition(), self.said
            time.sleep(0.1)

    def others(self) -> list[int]:
        """Processes of the group beside the first."""
        numbers = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
        found = {pid: _of_process(pid, "stat").rpartition(")")[2].split() for pid in numbers if pid != self.process.pid}
        return [pid for pid, fields in found.items() if fields and int(fields[2]) == self.process.pid and fields[0] != "Z"]

    def second_rank(self) -> int:
        """The process of rank 1, and none of its helpers: numbers of processes say nothing, since they begin anew at their limit."""
        children = [pid for pid in self.others() if _of_process(pid, "stat").rpartition(")")[2].split()[1:2] == [str(self.process.pid)]]
        (found,) = (pid for pid in children if "LOCAL_RANK=1" in _of_process(pid, "environ").split("\0"))
        return found

    def all_gone(self) -> bool:
        """None of them is left ten seconds later."""
        ended = time.monotonic() + 10
        while self.others() and time.monotonic() < ended:
            time.sleep(0.1)
        return not self.others()

    def checkpoints(self) -> list[Path]:
        return sorted(self.folder.glob("runs/**/*.ckpt"))


@pytest.fixture
def start(write: Callable[..., Path], config: dict[str, Any], tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Start a run that scores with one of `REWARDS` and would never end; nothing of it outlives the test."""
    runs: list[Run] = []

    def start(reward: str, *words: str, **trainer: Any) -> Run:
        write("luck.py", REWARDS)
        config["rollouts"] = 100_000
        config["model"]["rewards"] = {"luck": {"path": f"luck.{reward}", "runs": "inline", "error_window": 16}}
        config["data"]["validation_size"] = 0
        config["trainer"] |= trainer
        write("run.yaml", config)
        runs.append(Run(tmp_path, *words))
        return runs[-1]

    yield start
    for run in runs:
        try:
            os.killpg(run.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        finally:
            run.process.wait()


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.thorough), pytest.param(2, marks=pytest.mark.thorough)])
def test_sigterm_ends_all_ranks_after_the_rollout_with_a_checkpoint_and_143(start: Callable[..., Run], ranks: int) -> None:
    # only every thousandth rollout is saved otherwise
    saver = {"class_path": "ModelCheckpoint", "init_args": {"every_n_epochs": 1000}}
    run = start("slow", callbacks=[saver], devices=ranks, strategy="ddp" if ranks > 1 else "auto")
    run.wait_for(lambda: "First completions" in run.said)
    asked = run.second_rank() if ranks > 1 else run.process.pid
    os.kill(asked, signal.SIGTERM)
    assert run.process.wait(60) == 143, run.said
    assert [path.name for path in run.checkpoints()] == ["preempted.ckpt"]
    assert "Resume with the same command and --ckpt_path last" in run.said
    assert run.all_gone()


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.thorough), pytest.param(2, marks=pytest.mark.thorough)])
def test_ctrl_c_ends_the_run_after_the_rollout_with_a_checkpoint_and_130(start: Callable[..., Run], ranks: int) -> None:
    run = start("slow", devices=ranks, strategy="ddp" if ranks > 1 else "auto")
    run.wait_for(lambda: "First completions" in run.said)
    # a terminal sends it to all processes of the group
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.process.wait(60) == 130, run.said
    assert [path.name for path in run.checkpoints()] == ["preempted.ckpt"]
    assert "Ctrl-C: the run ends after the present rollout. A second Ctrl-C ends it at once." in run.said
    assert "Resume with the same command and --ckpt_path last" in run.said
    assert "Traceback" not in run.said
    assert run.all_gone()


@pytest.mark.thorough
def test_a_second_ctrl_c_ends_at_once(start: Callable[..., Run]) -> None:
    run = start("slow", "--model.prompts_per_rollout", "4000")
    run.wait_for((run.folder / "scoring").exists)
    run.process.send_signal(signal.SIGINT)
    run.wait_for(lambda: "A second Ctrl-C" in run.said)
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(60) == -signal.SIGINT
    assert not run.checkpoints()


@pytest.mark.thorough
def test_a_second_sigterm_ends_at_once(start: Callable[..., Run]) -> None:
    run = start("slow", "--model.prompts_per_rollout", "4000")
    run.wait_for((run.folder / "scoring").exists)
    run.process.send_signal(signal.SIGTERM)
    run.wait_for(lambda: "A second SIGTERM" in run.said)
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(60) == -signal.SIGTERM
    assert not run.checkpoints()


@pytest.mark.thorough
def test_a_sigterm_before_the_signal_is_taken_over_ends_before_the_first_rollout(start: Callable[..., Run]) -> None:
    run = start("slow", callbacks=[{"class_path": "luck.EarlySignal"}])
    assert run.process.wait(60) == 143, run.said
    assert "SIGTERM: ended before rollout 1. No checkpoint was written." in run.said


@pytest.mark.parametrize(
    ("strategy", "failing"),
    [
        pytest.param("ddp", "second", marks=[pytest.mark.thorough, pytest.mark.rare]),
        pytest.param("deepspeed_stage_2", "first", marks=[pytest.mark.thorough, pytest.mark.rare]),
        pytest.param("ddp", "first", marks=pytest.mark.thorough),
        pytest.param("deepspeed_stage_2", "second", marks=[pytest.mark.thorough, pytest.mark.rare]),
    ],
)
def test_a_rank_that_fails_ends_all_with_its_message(start: Callable[..., Run], strategy: str, failing: str) -> None:
    run = start(f"fails_on_{failing}", devices=2, strategy=strategy)
    run.wait_for(lambda: "no luck here" in run.said)
    began = time.monotonic()
    assert run.process.wait(30) not in (0, 143), run.said
    while run.others():
        assert time.monotonic() - began < 30, run.said
        time.sleep(0.2)


@pytest.mark.thorough
def test_a_rank_that_hangs_is_given_up_after_the_strategys_timeout(start: Callable[..., Run]) -> None:
    run = start("hangs_on_second", devices=2, strategy={"class_path": "DDPStrategy", "init_args": {"timeout": "0:00:40"}})
    run.wait_for(run.checkpoints)
    assert run.process.wait(120) != 0
    assert "another rank did not answer" in run.said
    assert "0:00:40" in run.said
    assert run.all_gone()


@pytest.mark.thorough
@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.rare), 1])
def test_a_rank_that_is_killed_ends_the_others_and_one_device_goes_on(start: Callable[..., Run], victim: int) -> None:
    saver = {"class_path": "ModelCheckpoint", "init_args": {"save_top_k": -1, "every_n_epochs": 1}}
    run = start("slow", callbacks=[saver], devices=2, strategy="ddp")
    run.wait_for(run.checkpoints)
    os.kill(run.process.pid if victim == 0 else run.second_rank(), signal.SIGKILL)
    assert run.process.wait(60) not in (0, 143), run.said
    # Lightning looks for ranks that have ended every five seconds, and kills rank 0 if it is the first to notice
    named = "local rank 1: signal 9 (SIGKILL)" in run.said or re.search(r"\[rank: 1\] .*terminated with code -9", run.said) is not None
    assert named is (victim == 1), run.said
    assert run.all_gone()
    for path in run.checkpoints():
        check(path)
    # a file that all strategies but DeepSpeed share is read on any number of ranks
    words = ["--trainer.devices", "1", "--trainer.strategy", "auto", "--ckpt_path", "last", "--rollouts", str(len(run.checkpoints()) + 1)]
    resumed = subprocess.run(
        [sys.executable, "-m", "lightrl", "fit", "--config", "run.yaml", *words],
        cwd=run.folder, env={**os.environ, "PYTHONPATH": str(run.folder)}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    assert "Resumed with differences" in resumed.stderr
    assert not list(run.folder.rglob("*.partial-*"))
