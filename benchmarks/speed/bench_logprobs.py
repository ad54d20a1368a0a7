"""Time and memory of log-probs and their gradient, on either side."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor, nn

ROUNDS = 2
"""Passes, of which the last is counted."""


class PeakMemory:
    """The most memory that this process has while a block runs, above what it has before, in GB."""

    def __init__(self) -> None:
        self.extra_gb = 0.0
        self._over = threading.Event()

    def __enter__(self) -> PeakMemory:
        self._process = psutil.Process()
        self._before = self._process.memory_info().rss
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self.extra_gb = max(self.extra_gb, (self._process.memory_info().rss - self._before) / 2**30)


def measured(loss: Callable[[Tensor, Tensor], Tensor], model: nn.Module, case: Mapping[str, Any], out: Path) -> None:
    """Write the processor time and the extra memory of a forward and a backward pass.

    Args:
        loss: the sum of the log-probs, given `[n, L]` ids and a mask of the tokens that count.
        model: whose gradients are there before the measurement.
        case: `bench_cases.LOGPROBS`.
        out: receives `meter.json`.
    """
    source = torch.Generator().manual_seed(0)
    rows, longest = case["rows"], case["tokens"]
    ids = torch.randint(2, case["vocabulary"], (rows, longest + 1), generator=source)
    lengths = torch.linspace(longest / rows, longest, rows).long()
    mask = (torch.arange(longest + 1) > 0) & (torch.arange(longest + 1) <= lengths[:, None])
    for _ in range(ROUNDS):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        begun = time.process_time()
        with PeakMemory() as memory:
            loss(ids, mask).backward()
        cpu = time.process_time() - begun
    (out / "meter.json").write_text(json.dumps({"cpu_s": cpu, "tokens": int(mask.sum()), "extra_gb": memory.extra_gb}))
