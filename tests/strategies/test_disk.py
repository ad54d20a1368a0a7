"""A disk that takes no more, and what killed runs leave on it: said with path and size, by every command and library that writes."""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from lightrl import LoraPolicy, TinyPolicy
from lightrl.policy.reward_network import RewardNetwork
from lightrl.policy.weights import TrainerWeights
from lightrl.strategies.checkpoint_io import WholeFileIO
from lightrl.strategies.disk import DiskError, below, onto_disk

SMALL = 200_000
"""Bytes that a file may have where the disk is full."""


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file grows beyond `SMALL`: as on a full disk, writing fails in the middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_checkpoint_that_does_not_fit_is_named_with_sizes(lightrl: Callable[..., Any], full_disk: None, tmp_path: Path) -> None:
    answer = lightrl("fit", "--config", "run.yaml", "--model.policy.hidden", "128", "--trainer.logger", "false")
    assert answer.status == 1
    assert "Traceback" not in answer.err
    *_, first, second = answer.lines
    assert ".ckpt' cannot be written: " in first
    assert "it needs about" in first
    assert first.endswith("are free there.")
    assert "--ckpt_path last" in second
    assert not list(tmp_path.rglob("*.partial*"))


def test_an_export_that_does_not_fit_is_named_with_sizes(full_disk: None, tmp_path: Path) -> None:
    policy = TinyPolicy(hidden=128, layers=1).build()
    with pytest.raises(DiskError, match=r"policy' cannot be written: .* it needs about 1\.01 MiB, and .* are free"):
        TrainerWeights(policy).save(tmp_path / "policy")


WRITERS: dict[str, Callable[[Path], object]] = {
    "a text": lambda path: path.write_text("x" * 2 * SMALL),
    "torch": lambda path: torch.save({"a": torch.zeros(SMALL)}, path),
    "safetensors": lambda path: save_file({"a": torch.zeros(SMALL)}, path),
    "a policy": lambda path: TinyPolicy(hidden=128).build().save(path),
    "adapters": lambda path: LoraPolicy(TinyPolicy(hidden=128), r=64).build().save(path),
    "a reward model": lambda path: RewardNetwork(TinyPolicy(hidden=128).build()).save(path),
    "a checkpoint": lambda path: WholeFileIO().save_checkpoint({"a": torch.zeros(SMALL)}, path),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_every_library_that_writes_says_the_same(full_disk: None, tmp_path: Path, writer: str) -> None:
    with pytest.raises(DiskError, match=r"file' cannot be written: .* are free there"), onto_disk(tmp_path / "file"):
        WRITERS[writer](tmp_path / "file")


def test_an_error_without_a_path_is_one_of_the_runs_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(DiskError, match=f"^'{tmp_path}' cannot be written: No space left"),
        below(tmp_path),
        Path("/dev/full").open("w") as f,
    ):
        f.write("x" * SMALL)
    with pytest.raises(PermissionError, match="of a port"), below(tmp_path):
        raise PermissionError(errno.EACCES, "of a port")


@pytest.mark.parametrize("verb", ["fit", "predict"])
def test_a_run_folder_that_may_not_be_written_is_named(lightrl: Callable[..., Any], verb: str) -> None:
    # not even root may make a folder there
    answer = lightrl(verb, "--config", "run.yaml", "--trainer.default_root_dir", "/sys/lightrl")
    assert answer.status == 1
    assert "Traceback" not in answer.err
    assert answer.lines[-1].startswith("'/sys/lightrl'")
    assert "--trainer.default_root_dir FOLDER" in answer.lines[-1]


def dead_process() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def test_the_next_run_removes_what_a_killed_one_left_and_names_what_it_cannot_know(
    lightrl: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "runs" / "run" / "version_0" / "checkpoints"
    folder.mkdir(parents=True)
    killed = folder / f"last.ckpt.partial-{socket.gethostname()}-{dead_process()}"
    elsewhere = folder / "last.ckpt.partial-another-machine-7"
    for path in (killed, elsewhere):
        path.write_bytes(bytes(3 * 2**20))
    assert lightrl("fit", "--config", "run.yaml", "--rollouts", "1").status == 0
    assert (killed.exists(), elsewhere.exists()) == (False, True)
    assert "removed 3 MiB that killed runs have left unfinished below 'runs/run'" in caplog.text
    assert "last.ckpt.partial-another-machine-7' (3 MiB) was left unfinished on another machine" in caplog.text
