"""A server on the trainer's device: which share of the memory is its own, and whether its sleep gives that back."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass

import psutil
import torch

from lightrl import PolicyWeights

TO_COME = 3
"""Of each trained tensor: its gradient and the two moments of AdamW."""
SPARE = 0.05
"""Share of the device that neither gets: fragments, and what libraries take."""
MOST = 0.9
"""Largest share of the device for a server."""
LIBRARIES = 2e9
"""Bytes that a server takes beside weights, keys and values."""
GIVEN_BACK = 0.5
"""Least share of what a server took that its sleep gives back; graphs and libraries stay."""
GB = 1e9


@dataclass(frozen=True)
class Room:
    """The memory of a device, in bytes."""

    total: float
    """Of the device."""
    in_use: float
    """By the trainer and other processes, before the server starts."""
    to_come: float
    """Of gradients and optimizer, which are not there before the first step."""
    weights: float
    """Of the server's copy of the policy."""

    @property
    def left(self) -> float:
        """Bytes that a server may take: those that it finds each time it wakes, but for some that are spared."""
        return min(MOST * self.total, (1 - SPARE) * self.total - self.in_use - self.to_come)

    def check(self) -> None:
        """Refuse, with a ValueError, a device that has no room for weights, libraries and some keys and values."""
        if self.left < (least := 1.1 * self.weights + LIBRARIES):
            raise ValueError(
                f"model.engine.colocate is true, and the device has no room for a server: {self.told}. It needs {least / GB:.1f} GB "
                "or more for its weights, libraries and some keys and values. Train adapters (LoraPolicy), or name other devices"
            )

    @property
    def told(self) -> str:
        """The sum, for a person."""
        return (
            f"of {self.total / GB:.1f} GB, {self.in_use / GB:.1f} GB are in use, {self.to_come / GB:.1f} GB for gradients and optimizer, "
            f"and {self.left / GB:.1f} GB left for the server"
        )

    def named_share(self, words: Sequence[str], option: str) -> float | None:
        """The number of an option that a config names, None if it names none; a ValueError for more of the device than is left."""
        split = [part for word in words for part in word.split("=", 1)]
        names = [part.replace("_", "-") for part in split]
        if option not in names:
            return None
        value = float(split[names.index(option) + 1])
        if value * self.total > self.left:
            raise ValueError(
                f"serve has {option} {value:g}, which is {value * self.total / GB:.1f} GB, and {self.told}: leave it out, or name at most "
                f"{self.left / self.total:.2f}"
            )
        return value


def room_beside(weights: PolicyWeights, device: torch.device) -> Room:
    """The room for a server beside a policy that learns on a device."""
    trained = sum(tensor.nbytes for _, tensor in weights.own_tensors(trained=True))
    size = sum(tensor.numel() for _, tensor in weights.own_tensors(trained=False)) * weights.compute_dtype.itemsize
    return Room(total=memory_of(device), in_use=memory_in_use(device, None), to_come=TO_COME * trained, weights=size)


def memory_of(device: torch.device) -> float:
    """Bytes that a device has; on a CPU, those of the machine."""
    if device.type == "cpu":
        return float(psutil.virtual_memory().total)
    return float(torch.get_device_module(device).mem_get_info(device)[1])


def memory_in_use(device: torch.device, server: int | None) -> float:
    """Bytes of a device that are in use by any process; on a CPU, by a server and its children, or, for None, by this process."""
    if device.type != "cpu":
        free, total = torch.get_device_module(device).mem_get_info(device)
        return float(total - free)
    process = psutil.Process(server)
    return float(sum(one.memory_info().rss for one in (process, *(process.children(recursive=True) if server else ()))))


def give_back_cached(device: torch.device) -> None:
    """Have torch give back what it keeps of freed tensors, so that a server can have it."""
    gc.collect()
    if device.type != "cpu":
        torch.get_device_module(device).empty_cache()
