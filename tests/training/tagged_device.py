"""A device without a device: tensors on the CPU that are taken for those of an accelerator, with what a host would wait for.

`torch.device("cpu", 0)` stands for the accelerator: torch computes on it everywhere, and it is unequal to `cpu`. A tensor is on it if its
storage is tagged: it was moved or made there, or computed from one that is. Two things are noted:

- a wait: a number comes to the host, a shape depends on numbers, or a copy of ordinary memory goes to the device;
- a mix: an operation is given tensors of both, which an accelerator refuses.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.utils.clip_grad as clip_grad
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DEVICE, HOST = torch.device("cpu", 0), torch.device("cpu")
SHAPED_BY_NUMBERS = {
    "nonzero",
    "masked_select",
    "_unique",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "bincount",
    "_local_scalar_dense",
    "is_nonzero",
    "equal",
}
"""Operations that wait for their arguments."""
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}
"""Operations that wait for indices of type bool, and take indices of the host, which are copied."""
TO_HOST = {"cpu", "tolist", "numpy", "__array__"}
"""Methods that copy to the host."""
OF_NUMBERS = {"tensor", "as_tensor", "asarray", "new_tensor"}
"""Functions that copy numbers of the host to where the tensor is made."""


class TaggedDevice:
    """Counts waits and mixes by the label under which they happen."""

    def __init__(self, label: str) -> None:
        """
        Args:
            label: of all that happens outside of `labelled`.
        """
        self.label = label
        self.counts: Counter[str] = Counter()
        self.causes: Counter[tuple[str, str]] = Counter()
        """Of the waits: label, and what waits where."""
        self.mixes: Counter[str] = Counter()
        self._storages: dict[int, StorageWeakRef] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within, waits and mixes are counted."""
        grouped = clip_grad._group_tensors_by_device_and_dtype

        def by_tagged_device(tensors: list[list[Tensor]], *arguments: Any) -> Any:
            # torch groups beneath what sees its methods, and moves results to the device that it has found
            found = grouped(tensors, *arguments)
            return {(first[0][0].device, dtype): (first, places) for (_, dtype), (first, places) in found.items()}

        clip_grad._group_tensors_by_device_and_dtype = by_tagged_device
        try:
            with _Methods(self), _Operations(self):
                yield
        finally:
            clip_grad._group_tensors_by_device_and_dtype = grouped

    def labelled(self, label: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its waits under a label of its own, and how often it was called under the label and `calls`."""

        def named(*args: Any, **kwargs: Any) -> Any:
            before, self.label = self.label, label
            self.counts[f"{label} calls"] += 1
            try:
                return inner(*args, **kwargs)
            finally:
                self.label = before

        return named

    def put(self, *tensors: Tensor) -> None:
        """Let these be on the device."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            # a weak reference keeps the address from being used again
            self._storages[storage._cdata] = StorageWeakRef(storage)

    def has(self, value: object) -> bool:
        """It is a tensor of the device."""
        return isinstance(value, Tensor) and value.untyped_storage()._cdata in self._storages

    def wait(self, cause: str) -> None:
        """Count one."""
        self.counts[self.label] += 1
        self.causes[self.label, f"{cause} at {_line_of_ours()}"] += 1

    def mix(self, name: str) -> None:
        """Count one."""
        self.mixes[f"{name} at {_line_of_ours()}"] += 1


class _Operations(TorchDispatchMode):
    """Sees every operation, those of backward passes included."""

    def __init__(self, device: TaggedDevice) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        device, name, kwargs = self.device, func.overloadpacket.__name__, kwargs or {}
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        there = [tensor for tensor in given if device.has(tensor)]
        if not there:
            return func(*args, **kwargs)
        if name == "copy_":
            return self._copy(func, args, kwargs)
        if name in SHAPED_BY_NUMBERS or (name == "repeat_interleave" and kwargs.get("output_size") is None):
            device.wait(name)
        indices = [index for index in args[1] if index is not None] if name in INDEXED else []
        for index in indices:
            if index.dtype in (torch.bool, torch.uint8):
                device.wait(f"{name} with a mask")
            elif not device.has(index):
                device.wait(f"{name} with indices of the host")
        welcome = {id(index) for index in indices} if indices and device.has(args[0]) else set()
        # an accelerator takes a number of the host that is a tensor
        if any(tensor.dim() and not device.has(tensor) and id(tensor) not in welcome for tensor in given):
            device.mix(name)
        out = func(*args, **kwargs)
        device.put(*(leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)))
        return out

    def _copy(self, func: Any, args: Any, kwargs: Any) -> Any:
        to, source = args[:2]
        blocks = not (kwargs.get("non_blocking") or (len(args) > 2 and args[2]))
        if self.device.has(source) and not self.device.has(to):
            self.device.wait("copy to the host")
        if self.device.has(to) and not self.device.has(source) and source.dim() and blocks:
            self.device.wait("copy to the device")
        return func(*args, **kwargs)


class _Methods(TorchFunctionMode):
    """Sees the methods that move tensors, which do nothing on the CPU, and those that make them."""

    def __init__(self, device: TaggedDevice) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, device, name = kwargs or {}, self.device, getattr(func, "__name__", "")
        if func == Tensor.device.__get__:  # type: ignore[attr-defined]
            return DEVICE if device.has(args[0]) else HOST
        was_there = bool(args) and device.has(args[0])
        out = func(*args, **kwargs)
        target = self._target(name, args, kwargs) if isinstance(out, Tensor) else None
        if name in TO_HOST and was_there:
            target = HOST
        if target == DEVICE or (name == "__deepcopy__" and was_there):
            if not was_there and out.numel() and (name in OF_NUMBERS or (name == "to" and not _non_blocking(args, kwargs))):
                device.wait("copy to the device")
            out = out.clone() if args and out is args[0] and not was_there else out
            device.put(out)
        elif target == HOST and was_there:
            if name in TO_HOST or name == "to":
                device.wait(name)
            return _untagged(out) if isinstance(out, Tensor) else out
        return out

    def _target(self, name: str, args: Any, kwargs: Any) -> torch.device | None:
        """Where a tensor is moved or made; None: it stays where it is."""
        if name in TO_HOST:
            return HOST
        where = kwargs.get("device", args[1] if name == "to" and len(args) > 1 else None)
        if isinstance(where, Tensor):
            return DEVICE if self.device.has(where) else HOST
        return torch.device(where) if isinstance(where, str | torch.device) else None


def _non_blocking(args: Any, kwargs: Any) -> bool:
    # Module.to passes it by its place, behind device and dtype
    return bool(kwargs.get("non_blocking", len(args) > 3 and args[3]))


def _untagged(tensor: Tensor) -> Tensor:
    # made beneath the modes, which would take the copy for a tensor of the device
    with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
        return tensor.detach().clone()


def _line_of_ours() -> str:
    """The innermost line of lightrl or of a package beside it."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if any(part == "lightrl" or part.startswith("lightrl_") for part in file.parts):
            return f"{file.name}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"
