"""Counts on the CPU how often the host would wait for an accelerator.

Tensors whose storage is marked stand for those of the device: the policy's weights, what is moved to their device or made there, and
all that is computed from them. What brings one of their numbers to the host, or gives a tensor whose shape depends on their numbers, would
wait.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SHAPED_BY_NUMBERS = {
    "nonzero",
    "masked_select",
    "_unique",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "repeat_interleave",
    "bincount",
    "_local_scalar_dense",
    "is_nonzero",
    "equal",
}
"""Operations that wait for their arguments."""
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}
"""Operations that wait for indices of type bool."""
TO_HOST = {"cpu", "tolist", "numpy", "__array__"}
"""Methods that copy to the host."""


class DeviceWaits:
    """Counts waits by the label under which they happen."""

    def __init__(self, label: str, device: torch.device) -> None:
        """
        Args:
            label: of all that happens outside of `labelled`.
            device: the object that stands for the device; others that are equal to it are the host.
        """
        self.label, self.device = label, device
        self.counts: Counter[str] = Counter()
        self.causes: Counter[tuple[str, str]] = Counter()
        self._storages: dict[int, StorageWeakRef] = {}

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Within, waits are counted."""
        with _Methods(self), _Operations(self):
            yield

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
        ours = [frame for frame in traceback.extract_stack() if "/lightrl/" in frame.filename]
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "elsewhere"
        self.counts[self.label] += 1
        self.causes[self.label, f"{cause} at {where}"] += 1


class _Operations(TorchDispatchMode):
    """Sees every operation, those of backward passes included."""

    def __init__(self, waits: DeviceWaits) -> None:
        super().__init__()
        self.waits = waits

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        waits, name = self.waits, func.overloadpacket.__name__
        there = any(waits.has(leaf) for leaf in tree_leaves((args, kwargs)))
        if there and name in SHAPED_BY_NUMBERS:
            waits.wait(name)
        if name in INDEXED and any(waits.has(i) and i.dtype in (torch.bool, torch.uint8) for i in args[1]):
            waits.wait(f"{name} with a mask")
        if name == "copy_" and waits.has(args[1]) and not waits.has(args[0]):
            waits.wait("copy to the host")
            return func(*args, **kwargs or {})
        out = func(*args, **kwargs or {})
        if there:
            waits.put(*(leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)))
        return out


class _Methods(TorchFunctionMode):
    """Sees the methods that move tensors, which do nothing on the CPU, and those that make them."""

    def __init__(self, waits: DeviceWaits) -> None:
        super().__init__()
        self.waits = waits

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, waits, name = kwargs or {}, self.waits, getattr(func, "__name__", "")
        if func == Tensor.device.__get__:  # type: ignore[attr-defined]
            return waits.device if waits.has(args[0]) else torch.device(waits.device.type)
        out = func(*args, **kwargs)
        target = self._target(name, args, kwargs)
        if target == "device":
            out = out.clone() if args and out is args[0] and not waits.has(out) else out
            waits.put(out)
        elif target == "host" and waits.has(args[0]):
            waits.wait(name)
            if isinstance(out, Tensor):
                return _unmarked(out)
        return out

    def _target(self, name: str, args: Any, kwargs: Any) -> str | None:
        """Where a tensor is moved or made; None: it stays where it is."""
        if name in TO_HOST:
            return "host"
        where = kwargs.get("device", args[1] if name == "to" and len(args) > 1 else None)
        if isinstance(where, Tensor):
            return "device" if self.waits.has(where) else "host"
        if where is self.waits.device:
            return "device"
        # what is made on the host was nowhere before
        return "host" if name == "to" and isinstance(where, str | torch.device) else None


def _unmarked(tensor: Tensor) -> Tensor:
    # made beneath the modes, which would take the copy for a tensor of the device
    with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
        return tensor.detach().clone()
