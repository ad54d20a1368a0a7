"""The files of a checkpoint, and whether it is whole: one file, or DeepSpeed's folder of files with a list of them.

Files are zip archives as `torch.save` writes them. `torch.load` does not compare their checksums; here they are compared.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from lightrl.import_path import imported

FORMAT = 1
MARK = "lightrl_checkpoint"
"""Key of a file's contents, and name of a folder's list: what `Written` says."""
LIST = f"{MARK}.json"
TAG = "checkpoint"
"""The folder in which DeepSpeed keeps its files, and what its file `latest` says."""


class CheckpointError(ValueError):
    """A checkpoint cannot be written or loaded; every rank raises the same."""


@dataclass(frozen=True)
class Written:
    """The writer of a checkpoint: ranks, ZeRO stage, format."""

    ranks: int
    """Ranks that took part."""
    zero_stage: int | None = None
    """DeepSpeed's stage; None: one file, which all other strategies share."""
    format: int = FORMAT
    """Of the checkpoint; a larger number than `FORMAT` was written by a later version."""

    @property
    def strategy(self) -> str:
        """The setting to type to have the same again."""
        name = f"deepspeed_stage_{self.zero_stage}" if self.zero_stage else "deepspeed"
        return f"--trainer.strategy {name} --trainer.devices {self.ranks}"


def write_list(folder: Path, written: Written) -> None:
    """List the files of DeepSpeed's folder with their sizes, last of all: a folder with a list is complete."""
    for script in folder.glob("*.py"):
        # DeepSpeed adds programs for its users, who have them installed: a checkpoint is data
        script.unlink()
    files = {str(p.relative_to(folder)): p.stat().st_size for p in sorted(folder.rglob("*")) if p.is_file()}
    (folder / LIST).write_text(json.dumps({**asdict(written), "files": files}, indent=1))


def check(path: Path, share: slice = slice(None)) -> Written:
    """Whether a checkpoint is whole and holds nothing that would be executed; reads every byte of it.

    Args:
        path: a file, or DeepSpeed's folder.
        share: which of a folder's files to read.

    Raises:
        CheckpointError: it is not; in at most three lines.
    """
    problem = _problem(path, share)
    if problem is None:
        written = written_by(path)
        if written.format <= FORMAT:
            return written
        problem = f"has format {written.format}, and this version reads {FORMAT}: update lightrl"
    raise CheckpointError(f"ckpt_path: {str(path)!r} {problem}.\n{others(path)}")


def looks_whole(path: Path) -> bool:
    """The same without reading it: sizes and archives are as they were written."""
    if path.is_dir():
        return (path / LIST).is_file() and _wrong_list(path) is None
    return zipfile.is_zipfile(path)


def others(path: Path) -> str:
    """A line that names the checkpoints beside one that cannot be used."""
    beside = [p for p in path.parent.glob("*.ckpt") if p != path and looks_whole(p)]
    if not beside:
        return f"There is no other checkpoint in {str(path.parent)!r}: a run starts anew without --ckpt_path."
    names = [p.name for p in sorted(beside, key=lambda p: (p.stat().st_mtime, p.name), reverse=True)]
    return f"Whole ones in {str(path.parent)!r}: {', '.join(names[:5])}. Type for example: --ckpt_path {path.parent / names[0]}"


def written_by(path: Path) -> Written:
    """The writer of a checkpoint that is whole."""
    said: Any = json.loads((path / LIST).read_text()) if path.is_dir() else contents(path)[MARK]
    return Written(said["ranks"], said["zero_stage"], said["format"])


def states_in(folder: Path) -> list[Path]:
    """The files of torch in DeepSpeed's folder."""
    return sorted((folder / TAG).glob("*.pt"))


def contents(file: Path) -> dict[str, Any]:
    """The content of a file, its tensors without their numbers."""
    with only_weights():
        found: dict[str, Any] = torch.load(file, map_location="meta")
    return found


def _problem(path: Path, share: slice) -> str | None:
    if not path.is_dir():
        return _wrong_file(path) or _foreign(path)
    if not (path / LIST).is_file():
        return f"is a folder without {LIST}, so it was not written to its end, or not by lightrl"
    if wrong := _wrong_list(path):
        return wrong
    for file in states_in(path)[share]:
        if wrong := _wrong_file(file):
            return f"cannot be used: its file {file.name} {wrong}"
    return None


def _wrong_list(folder: Path) -> str | None:
    try:
        said = json.loads((folder / LIST).read_text())
        sizes = {str(name): int(size) for name, size in said["files"].items()}
        numbers = (int(said["format"]), int(said["ranks"]), int(said["zero_stage"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return f"has a file {LIST} that is not the list of its files"
    found = {str(p.relative_to(folder)): p.stat().st_size for p in folder.rglob("*") if p.is_file() and p.name != LIST}
    for name in sorted(sizes.keys() | found.keys()):
        if sizes.get(name) != found.get(name):
            return f"is not as it was written: {name} has {_size(found.get(name))}, and {_size(sizes.get(name))} were written"
    if (folder / "latest").read_text(errors="replace").strip() != TAG or min(numbers) < 0:
        return "is not as it was written: its file latest names another folder"
    return None


def _wrong_file(file: Path) -> str | None:
    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        return f"is no file of torch.save, or its end is missing ({error})"
    if damaged is not None:
        return f"is damaged: the checksum of {damaged} in it is wrong"
    try:
        unsafe = unsafe_names(file)
    except Exception as error:
        return f"is no file of torch.save ({type(error).__name__}: {_line(error)})"
    if unsafe:
        return f"would execute or build something when it is loaded ({', '.join(unsafe[:3])}), which no checkpoint of lightrl does"
    return None


def _foreign(file: Path) -> str | None:
    try:
        held = contents(file)
    except Exception as error:
        return f"cannot be read ({type(error).__name__}: {_line(error)})"
    if isinstance(held, dict) and isinstance(held.get(MARK), dict):
        return None
    keys: Iterable[Any] = held if isinstance(held, dict) else [type(held).__name__]
    return (
        f"is no checkpoint of a lightrl run: it holds {', '.join(map(str, list(keys)[:3]))}, ... "
        "(weights alone are given as a folder: --model.policy PretrainedPolicy --model.policy.path FOLDER)"
    )


def _size(size: int | None) -> str:
    return "no bytes" if size is None else f"{size:,} bytes"


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:120]


FORCE, FORBID = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
KEPT_BY_DEEPSPEED = {
    "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
    "deepspeed.runtime.fp16.loss_scaler.LossScaler",
    "deepspeed.runtime.zero.config.ZeroStageEnum",
    "deepspeed.utils.tensor_fragment.fragment_address",
}
"""Plain records in DeepSpeed's files, whose construction does nothing."""


@contextmanager
def only_weights() -> Iterator[None]:
    """Within, every `torch.load` of this process takes tensors, plain values and what DeepSpeed keeps, and refuses all else.

    DeepSpeed asks for `weights_only=False` in several places; torch's own switch overrules each of them.

    Source: https://docs.pytorch.org/docs/stable/notes/serialization.html
    """
    before = {name: os.environ.pop(name, None) for name in (FORCE, FORBID)}
    os.environ[FORCE] = "1"
    # where DeepSpeed is not in use its import is left out: it takes seconds
    kept: list[Any] = [imported(name) for name in sorted(KEPT_BY_DEEPSPEED)] if "deepspeed" in sys.modules else []
    try:
        with torch.serialization.safe_globals(kept):
            yield
    finally:
        del os.environ[FORCE]
        os.environ.update({name: value for name, value in before.items() if value is not None})


def unsafe_names(path: str | os.PathLike[str]) -> list[str]:
    """Classes and functions that a file of `torch.save` refers to and `only_weights` refuses, found without loading it."""
    return sorted(set(torch.serialization.get_unsafe_globals_in_checkpoint(os.fspath(path))) - KEPT_BY_DEEPSPEED)


def ranks_now() -> int:
    """Ranks of this run."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def agreed(act: Callable[[], object]) -> None:
    """Do something on every rank; a barrier. Where it failed on one, all raise CheckpointError with its complaint."""
    complaint = None
    try:
        act()
    except (CheckpointError, OSError) as error:
        complaint = str(error)
    everyone = [complaint] * ranks_now()
    if len(everyone) > 1:
        torch.distributed.all_gather_object(everyone, complaint)
    for said in everyone:
        if said is not None:
            raise CheckpointError(said)


def check_together(path: Path) -> Written:
    """`check` a checkpoint, each rank its share of a folder's files; all raise the same CheckpointError, or none does."""
    ranks = ranks_now()
    rank = torch.distributed.get_rank() if ranks > 1 else 0
    agreed(lambda: check(path, slice(rank, None, ranks)) if rank == 0 or path.is_dir() else None)
    return written_by(path)
