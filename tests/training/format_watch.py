"""A watch over the numbers that our lines make: in half precision only what is the network's, or says so."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

HALVES = (torch.bfloat16, torch.float16)
ROOT = Path(__file__).parents[2]
TORCH = str(Path(torch.__file__).parent)
MODULES = f"{TORCH}/nn/modules"
SAYING = frozenset({"to", "bfloat16", "half", "type", "type_as"})
"""Methods that say which format they give."""
VIEWS = frozenset({"__getitem__", "reshape", "view", "cat", "detach", "__get__"})
"""What moves numbers, and makes none."""
NETWORK = (
    "lightrl/policy/",
    "lightrl/rollout/decode/cache.py",
    "lightrl/rollout/decode/decode_attention.py",
    "lightrl/rollout/decode/kept_rows.py",
    "lightrl/rollout/decode/graph_step.py",
    "lightrl/rollout/decode/lean_step.py",
    "lightrl/rollout/decode/step_choice.py",
    "lightrl/strategies/",
    "lightrl/ops/logprobs.py",
    "lightrl/ops/packing.py",
    "lightrl/ops/tree_attention.py",
)
"""Files whose numbers are the network's: its layers, its head, its weights."""


class FormatWatch(TorchFunctionMode):
    """Notes each line of ours that makes numbers in half precision which are not the network's, or does not say so."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", str(func))
        if halves((out,)) and name not in SAYING and not says((*args, *(kwargs or {}).values())):
            line = our_line(sys._getframe(1))
            # under autocast the network rounds what it is given
            given = halves((*args, kwargs)) if name in VIEWS else next(tensors((*args, kwargs)), None) is not None
            if line is not None and not (given and (name in VIEWS or line.startswith(NETWORK))):
                self.found.add(f"{line} {name}")
        return out


def halves(values: Iterable[Any]) -> bool:
    """Whether a tensor among them is in half precision."""
    return any(tensor.dtype in HALVES for tensor in tensors(values))


def says(arguments: Iterable[Any]) -> bool:
    """Whether the arguments of a call name a format of half precision."""
    return any(isinstance(one, torch.dtype) and one in HALVES for one in arguments)


def tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Tensors of numbers, also inside lists and dictionaries."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors(value)
        elif isinstance(value, dict):
            yield from tensors(value.values())


def our_line(frame: FrameType | None) -> str | None:
    """The line of ours that called torch, by file and number; None: a library did, or a module was called."""
    while frame is not None and (file := frame.f_code.co_filename).startswith((TORCH, "<")):
        if file.startswith(MODULES):
            return None
        frame = frame.f_back
    if frame is None or not (path := Path(frame.f_code.co_filename)).is_relative_to(ROOT) or "site-packages" in path.parts:
        return None
    name = str(path.relative_to(ROOT))
    return None if name.startswith("tests/") else f"{name}:{frame.f_lineno}"
