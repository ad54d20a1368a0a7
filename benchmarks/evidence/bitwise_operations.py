"""Finds the operations of torch whose result for a row depends on the rows beside it: `python -m benchmarks.evidence.bitwise_operations`.

For each, the share of numbers that differ in any bit between a row alone (or among few) and the same row among 64. Prints a table.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

ROWS = 64
FEW = (1, 2, 3, 4, 5, 8, 24, 33, 63)
SHAPES = {
    "q_proj": (576, 576),
    "gate_proj": (576, 1536),
    "down_proj": (1536, 576),
    "head": (576, 49152),
    "Qwen2.5-0.5B gate_proj": (896, 4864),
}
"""Inputs and outputs of linear layers, of SmolLM2-135M and of another."""
POSITIONS = 40
"""Of rows that attention reads."""


def share(one: Tensor, other: Tensor) -> float:
    """The share of numbers that differ."""
    return float((one != other).float().mean())


def of_rows(operation: Callable[[Tensor], Tensor], width: int, dtype: torch.dtype) -> dict[int, float]:
    """The share of differing numbers for so many rows, against the same rows among all."""
    x = torch.randn(ROWS, width, dtype=dtype, generator=torch.Generator().manual_seed(0))
    whole = operation(x)
    return {few: share(operation(x[:few].clone()), whole[:few]) for few in FEW}


def of_attention(dtype: torch.dtype) -> float:
    """One query behind a cache against the last of a whole row."""
    numbers = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 9, POSITIONS, 64, dtype=dtype, generator=numbers) for _ in range(3))
    whole = F.scaled_dot_product_attention(query, key, value, is_causal=True)[:, :, -1:]
    return share(F.scaled_dot_product_attention(query[:, :, -1:], key, value), whole)


def of_order(dtype: torch.dtype) -> float:
    """The gradient of a weight, from tokens in one order and in another."""
    numbers = torch.Generator().manual_seed(0)
    grad, x = torch.randn(512, 576, dtype=dtype, generator=numbers), torch.randn(512, 576, dtype=dtype, generator=numbers)
    order = torch.randperm(512, generator=numbers)
    return share(grad.T @ x, grad[order].T @ x[order])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    print("| operation | dtype |", *(f"{few} |" for few in FEW))
    for dtype in (torch.float32, torch.float64):
        name = str(dtype).removeprefix("torch.")
        operations: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {}
        for layer, (inputs, outputs) in SHAPES.items():
            weight = torch.randn(outputs, inputs, dtype=dtype, generator=torch.Generator().manual_seed(1))
            operations[f"linear, {layer}"] = (lambda x, weight=weight: F.linear(x, weight)), inputs
        operations |= {"silu, 1536 wide": (F.silu, 1536), "silu, 45 wide": (F.silu, 45), "exp, 45 wide": (torch.exp, 45)}
        operations["RMS norm"] = (lambda x: F.rms_norm(x, (576,))), 576
        operations["mean of squares"] = (lambda x: x.square().mean(-1)), 576
        operations["log-softmax"] = (lambda x: x.log_softmax(-1)), 49152
        for operation, (function, width) in operations.items():
            print(f"| {operation} | {name} |", *(f"{found:.3g} |" for found in of_rows(function, width, dtype).values()))
        print(f"attention behind a cache, {name}: {of_attention(dtype):.3g}; tokens in another order, {name}: {of_order(dtype):.3g}")


if __name__ == "__main__":
    main()
