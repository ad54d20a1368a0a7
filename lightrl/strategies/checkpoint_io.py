"""Checkpoints as one file: written whole or not at all, checked before they are loaded, and never executed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import CheckpointIO, TorchCheckpointIO
from lightning.pytorch import LightningModule
from lightning.pytorch.plugins.io.wrapper import _WrappingCheckpointIO
from lightning.pytorch.strategies import Strategy

from lightrl.strategies.atomic import partial, publish, remove, tidy
from lightrl.strategies.checkpoint_files import MARK, CheckpointError, Written, check_together, only_weights, ranks_now, unsafe_names
from lightrl.strategies.checkpoint_weights import refuse_shapes
from lightrl.strategies.disk import onto_disk


class WholeFileIO(TorchCheckpointIO):
    """Lightning's file of tensors and plain values; a path with `://` goes Lightning's own way, and is loaded as carefully."""

    def __init__(self, module: LightningModule | None = None) -> None:
        """`module`: whose weights a checkpoint must have to be loaded; None: any."""
        self._module, self._recovered = module, set[Path]()

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: object = None) -> None:
        """Write beside the path and rename; a CheckpointError if something in it could not be loaded again."""
        marked = {**checkpoint, MARK: asdict(Written(ranks_now()))}
        if storage_options is not None or "://" in str(path):
            super().save_checkpoint(marked, str(path), storage_options)
            return
        place = Path(path).absolute()
        with onto_disk(place):
            place.parent.mkdir(parents=True, exist_ok=True)
        self.recover_once(place.parent)
        written = partial(place)
        try:
            with onto_disk(place, tensor_bytes(checkpoint)):
                torch.save(marked, written)
            refuse_unsafe(marked, unsafe_names(written))
            publish(written, place)
        finally:
            remove(written)

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Callable[..., object] | None = lambda storage, loc: storage,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Check the file and load what is in it; `weights_only=False` is refused.

        Raises:
            CheckpointError: the file is damaged, or something else, or another strategy's.
        """
        refuse_execution(weights_only)
        if "://" not in str(path):
            refuse_folder(Path(path), check_together(Path(path)))
            if self._module is not None:
                refuse_shapes(Path(path), self._module)
        with only_weights():
            return super().load_checkpoint(str(path), map_location, weights_only=True)

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Delete a checkpoint, a folder of another strategy's too."""
        if "://" in str(path):
            super().remove_checkpoint(str(path))
        else:
            remove(Path(path))

    def recover_once(self, folder: Path) -> None:
        """Tidy a folder up before the first checkpoint goes into it."""
        if folder not in self._recovered:
            tidy(folder)
            self._recovered.add(folder)


class KeptIO(CheckpointIO):
    """A user's wrapper around `WholeFileIO`, as Lightning's `AsyncCheckpointIO` is one; Lightning itself would put its own file inside."""

    def __init__(self, wrapper: _WrappingCheckpointIO, inner: WholeFileIO) -> None:
        self.wrapper = wrapper
        wrapper.checkpoint_io = inner

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: object = None) -> None:
        self.wrapper.save_checkpoint(checkpoint, path, storage_options)

    def load_checkpoint(
        self, path: str | os.PathLike[str], map_location: object = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        return self.wrapper.load_checkpoint(path, weights_only=weights_only)

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        self.wrapper.remove_checkpoint(path)

    def teardown(self) -> None:
        self.wrapper.teardown()


def guard(strategy: Strategy, module: LightningModule) -> None:
    """Have a strategy write and load its checkpoints by these rules, unless it was given a `CheckpointIO` of the user's own."""
    given = strategy.checkpoint_io
    if type(given) is TorchCheckpointIO:
        strategy.checkpoint_io = WholeFileIO(module)
    elif isinstance(given, _WrappingCheckpointIO):
        strategy.checkpoint_io = KeptIO(given, WholeFileIO(module))


def refuse_execution(weights_only: bool | None) -> None:
    """Raise CheckpointError if a checkpoint would be allowed to execute something."""
    if weights_only is False:
        raise CheckpointError("ckpt_path: weights_only=False would let the checkpoint execute what is in it.\nLeave weights_only out.")


def refuse_folder(path: Path, written: Written) -> None:
    """Raise CheckpointError where one file is needed and DeepSpeed wrote a folder."""
    if path.is_dir():
        raise CheckpointError(
            f"ckpt_path: {str(path)!r} is a folder of DeepSpeed's, which this run's strategy cannot load: it needs one file.\n"
            f"Type: {written.strategy}"
        )


def refuse_unsafe(checkpoint: dict[str, Any], unsafe: list[str]) -> None:
    """Raise CheckpointError if something in a checkpoint could not be loaded again."""
    if unsafe:
        where = next(_places(checkpoint, set(unsafe), ""), "")
        raise CheckpointError(
            f"the checkpoint's {where or 'state'} holds {', '.join(unsafe[:3])}, which cannot be loaded without executing code.\n"
            "What a callback, a part or a data module keeps must be tensors, numbers, texts, lists and dictionaries."
        )


def tensor_bytes(value: object) -> int:
    """Bytes of all tensors in a checkpoint."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple, set)) else ()
    return sum(map(tensor_bytes, inside))


def _places(value: object, names: set[str], at: str) -> Iterator[str]:
    """Keys under which there is a class or function of these names, or something made of one."""
    for named in (value, type(value)):
        # a method is written as its class and the name in it
        module, name = getattr(named, "__module__", ""), str(getattr(named, "__qualname__", "")).partition(".")[0]
        if f"{module}.{name}" in names:
            yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple, set)) else ()
    for key, part in inside:
        yield from _places(part, names, f"{at}[{key!r}]")
