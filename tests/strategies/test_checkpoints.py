"""Checkpoints of every strategy: resumed to the same numbers, refused when something is wrong with them, and never executed."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from lightrl.cli import main
from lightrl.strategies.checkpoint_files import LIST, only_weights
from lightrl.strategies.checkpoint_io import WholeFileIO

HERE = Path(__file__).parent
OTHERS = ("auto", "ddp", "deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_3")
STRATEGIES = [
    "auto",
    *(pytest.param(name, marks=pytest.mark.thorough) for name in ("deepspeed_stage_3", "fsdp2")),
    *(pytest.param(name, marks=[pytest.mark.thorough, pytest.mark.rare]) for name in ("ddp", "deepspeed_stage_1", "deepspeed_stage_2")),
]


def config(strategy: str, name: str) -> dict[str, Any]:
    saving = {"save_top_k": -1, "every_n_epochs": 1, "save_on_train_epoch_end": True, "dirpath": f"saved_{name}"}
    sampler = {"class_path": "DynamicSampler", "init_args": {"group_size": 4, "max_rounds": 3, "surplus": "carry", "exhausted": "partial"}}
    return {
        "rollouts": 3,
        "trainer": {
            "accelerator": "cpu", "devices": 1 if strategy == "auto" else 2, "strategy": strategy, "logger": False,
            "enable_progress_bar": False, "enable_model_summary": False,
            "callbacks": [
                {"class_path": "ends_of_runs.Witness", "init_args": {"name": name}},
                {"class_path": "ModelCheckpoint", "init_args": saving},
            ],
        },
        "model": {
            "policy": {"class_path": "TinyPolicy", "init_args": {"hidden": 16, "layers": 1, "heads": 2}},
            "algorithm": {"class_path": "PPO", "init_args": {"sampler": sampler, "minibatches": 2}},
            "rewards": {"digits": "lightrl_workshop.FirstDigits"},
            "engine": {"max_new_tokens": 8},
            "prompts_per_rollout": 8,
            "micro_batch_tokens": 128,
        },
        "data": {"train": {"class_path": "DigitSorting", "init_args": {"examples": 37}}, "validation_size": 4},
    }  # fmt: skip


class Runs:
    """Runs of one strategy in one folder, each in processes of its own."""

    def __init__(self, strategy: str, folder: Path) -> None:
        self.strategy, self.folder = strategy, folder

    def lightrl(self, verb: str, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(config(self.strategy, name)))
        return self.command(verb, "--config", f"{name}.yaml", *words)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{HERE}"}
        environment |= {"WITNESS_FOLDER": str(self.folder)}
        command = [sys.executable, "-m", "lightrl", *words]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=280, check=False)

    def saved(self, name: str = "whole") -> list[Path]:
        return sorted((self.folder / f"saved_{name}").glob("*.ckpt"))

    def seen(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(file.read_text()) for file in sorted(self.folder.glob(f"{name}.rank*.json"))]


@pytest.fixture(scope="module", params=STRATEGIES)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """An uninterrupted run of three rollouts, with a checkpoint after each."""
    made = Runs(request.param, tmp_path_factory.mktemp(request.param))
    ended = made.lightrl("fit", "whole")
    assert ended.returncode == 0, ended.stderr
    assert len(made.saved()) == 3
    return made


class Canary:
    """Unpickled, it makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.file,)


@pytest.fixture
def refused(runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Path], str]:
    """The error of the command line about a checkpoint that it must refuse."""
    monkeypatch.chdir(runs.folder)
    monkeypatch.syspath_prepend(str(HERE))

    def refused(path: Path) -> str:
        capsys.readouterr()
        assert main(["fit", "--config", "whole.yaml", "--ckpt_path", str(path)]) == 2
        said = "\n".join(line for line in capsys.readouterr().err.strip().splitlines() if not line.startswith("import path: "))
        assert len(said.splitlines()) <= 3, said
        assert said.startswith("ckpt_path: "), said
        assert f"--ckpt_path {path.parent}" in said, "what else there is"
        return said

    return refused


@pytest.fixture
def damaged(runs: Runs) -> Any:
    """A copy of the last checkpoint beside it, to be damaged."""
    copy = runs.saved()[-1].with_name("copy.ckpt")
    shutil.copytree(runs.saved()[-1], copy) if runs.saved()[-1].is_dir() else shutil.copy(runs.saved()[-1], copy)
    yield copy
    shutil.rmtree(copy) if copy.is_dir() else copy.unlink(missing_ok=True)


def files_of(checkpoint: Path) -> list[Path]:
    return sorted(p for p in checkpoint.rglob("*") if p.is_file()) if checkpoint.is_dir() else [checkpoint]


def relist(checkpoint: Path) -> None:
    """Have the list of files say what is there, as one who means harm would."""
    if checkpoint.is_dir() and (checkpoint / LIST).read_bytes()[:1] == b"{":
        said = json.loads((checkpoint / LIST).read_text())
        said["files"] = {str(f.relative_to(checkpoint)): f.stat().st_size for f in files_of(checkpoint) if f.name != LIST}
        (checkpoint / LIST).write_text(json.dumps(said))


def test_resumed_runs_end_where_the_uninterrupted_one_does(runs: Runs) -> None:
    ended = runs.lightrl("fit", "rest", "--ckpt_path", str(runs.saved()[0]))
    assert ended.returncode == 0, ended.stderr
    whole, rest = runs.seen("whole"), runs.seen("rest")
    assert len(whole) == len(rest) == (1 if runs.strategy == "auto" else 2)
    for one, other in zip(whole, rest, strict=True):
        assert list(other["rollouts"]) == ["1", "2"]
        assert all(one["rollouts"][number] == seen for number, seen in other["rollouts"].items())
        for name, weight in one["weights"].items():
            assert weight == pytest.approx(other["weights"][name], abs=1e-6), name
    assert not list(runs.folder.rglob("*.partial-*"))


@pytest.mark.thorough
@pytest.mark.parametrize("runs", ["fsdp2", *(pytest.param(name, marks=pytest.mark.rare) for name in OTHERS)], indirect=True)
def test_weights_alone_are_one_file_that_is_exported_and_not_gone_on_from(runs: Runs) -> None:
    config_of, saver = runs.folder / "light.yaml", {"save_weights_only": True, "every_rollouts": 1}
    light = config(runs.strategy, "light")
    light["trainer"]["callbacks"][1] = {"class_path": "RunCheckpoints", "init_args": saver}
    light["trainer"] |= {"default_root_dir": "light", "check_val_every_n_epoch": 1}
    config_of.write_text(yaml.safe_dump(light))
    ended = runs.command("fit", "--config", "light.yaml", "--rollouts", "1")
    assert ended.returncode == 0, ended.stderr
    (last,) = (runs.folder / "light").rglob("rollout=1.ckpt")
    (best,) = (runs.folder / "light").rglob("best-rollout=1.ckpt")
    assert last.is_file()
    assert best.samefile(last)
    assert last.stat().st_size < 0.6 * sum(file.stat().st_size for file in files_of(runs.saved()[0]))
    more = runs.command("fit", "--config", "light.yaml", "--ckpt_path", str(last))
    assert more.returncode == 2
    assert "was written without the optimizer" in more.stderr, more.stderr
    written = [runs.command("export", "--config", "light.yaml", "--ckpt_path", str(p), "--out", p.stem) for p in (last, runs.saved()[0])]
    assert [one.returncode for one in written] == [0, 0], written
    one, other = (load_file(runs.folder / path.stem / "model.safetensors") for path in (last, runs.saved()[0]))
    assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in other)


def test_nothing_in_any_file_is_executed(runs: Runs, damaged: Path, refused: Callable[[Path], str], tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for file in files_of(damaged):
        before = {f: f.read_bytes() for f in files_of(damaged)}
        torch.save({"state_dict": {}, "x": Canary(canary)}, file)
        relist(damaged)
        assert file.name in refused(damaged) or file.name == "latest"
        file.write_bytes(pickle.dumps(Canary(canary)))
        relist(damaged)
        refused(damaged)
        for f, content in before.items():
            f.write_bytes(content)
        assert not canary.exists()


def test_truncated_and_flipped_files_are_refused(runs: Runs, damaged: Path, refused: Callable[[Path], str]) -> None:
    chance = random.Random(0)
    for file in files_of(damaged):
        before = file.read_bytes()
        for length in (0, 1, len(before) // 2, len(before) - 1):
            file.write_bytes(before[:length])
            assert "copy.ckpt" in refused(damaged)
        file.write_bytes(before)
    for file in (f for f in files_of(damaged) if f.suffix in (".pt", ".ckpt")):
        before, data = file.read_bytes(), tensor_bytes(file)
        for _ in range(3):
            flipped = bytearray(before)
            flipped[chance.choice(data)] ^= 1 << chance.randrange(8)
            file.write_bytes(flipped)
            assert "checksum" in refused(damaged)
        file.write_bytes(before)


def tensor_bytes(file: Path) -> range:
    """Where the numbers of a file's largest tensor stand."""
    import zipfile

    with zipfile.ZipFile(file) as archive:
        largest = max(archive.infolist(), key=lambda info: info.file_size)
        content = archive.read(largest)
    start = file.read_bytes().index(content)
    return range(start, start + len(content))


@pytest.mark.parametrize("what", ["text", "weights", "an empty folder", "another list", "a file missing"])
def test_what_is_no_checkpoint_of_ours_is_refused(what: str, runs: Runs, damaged: Path, refused: Callable[[Path], str]) -> None:
    if what in ("another list", "a file missing"):
        if not damaged.is_dir():
            pytest.skip("one file has no list")
        (damaged / LIST).write_text("[]") if what == "another list" else files_of(damaged)[0].unlink()
        assert "is not" in refused(damaged)
        return
    shutil.rmtree(damaged) if damaged.is_dir() else damaged.unlink()
    if what == "text":
        damaged.write_text("no checkpoint")
        assert "is no file of torch.save" in refused(damaged)
    if what == "weights":
        torch.save({"lm_head.weight": torch.zeros(2, 2)}, damaged)
        assert "is no checkpoint of a lightrl run: it holds lm_head.weight" in refused(damaged)
    if what == "an empty folder":
        damaged.mkdir()
        assert "not written to its end" in refused(damaged)


def test_last_takes_nothing_half_written(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    from lightrl.config.build.checkpoints import newest

    last = newest(runs.folder / "saved_whole")
    half = last.with_name("epoch=9-step=99.ckpt.partial-another-machine-1")
    half.mkdir()
    (half / "latest").write_text("checkpoint")
    assert newest(runs.folder / "saved_whole") == last
    shutil.rmtree(half)


@pytest.mark.thorough
@pytest.mark.rare
def test_deepspeed_says_which_ranks_and_stage_it_needs(tmp_path: Path) -> None:
    two = Runs("deepspeed_stage_2", tmp_path)
    assert two.lightrl("fit", "whole", "--rollouts", "1").returncode == 0
    one = two.lightrl("fit", "rest", "--trainer.devices", "1", "--ckpt_path", str(two.saved()[0]))
    assert one.returncode == 2
    assert "stage 2 on 2 ranks, and this run has stage 2 on 1" in one.stderr
    assert "Type: --trainer.strategy deepspeed_stage_2 --trainer.devices 2" in one.stderr
    plain = two.lightrl("fit", "rest", "--trainer.strategy", "auto", "--trainer.devices", "1", "--ckpt_path", str(two.saved()[0]))
    assert plain.returncode == 2
    assert "it needs one file" in plain.stderr
    assert "Traceback" not in one.stderr + plain.stderr


@pytest.mark.parametrize("legacy", [False, True])
def test_a_library_that_asks_for_execution_does_not_get_it(legacy: bool, tmp_path: Path) -> None:
    torch.save(Canary(tmp_path / "canary"), tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    with only_weights(), pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "x.pt", weights_only=False)
    assert not (tmp_path / "canary").exists()
    torch.load(tmp_path / "x.pt", weights_only=False)
    assert (tmp_path / "canary").exists(), "it does harm"


def test_what_could_not_be_loaded_again_is_not_written(tmp_path: Path) -> None:
    io = WholeFileIO()
    io.save_checkpoint({"state_dict": {}, "step": 1}, tmp_path / "x.ckpt")
    with pytest.raises(ValueError, match=r"the checkpoint's \['callbacks'\]\['mine'\] holds (pathlib|posix|builtins)"):
        io.save_checkpoint({"state_dict": {}, "callbacks": {"mine": Path.touch}}, tmp_path / "x.ckpt")
    assert io.load_checkpoint(tmp_path / "x.ckpt")["step"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["x.ckpt"]
    with pytest.raises(ValueError, match="weights_only=False"):
        io.load_checkpoint(tmp_path / "x.ckpt", weights_only=False)
