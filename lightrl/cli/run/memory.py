"""An estimate of the memory that models take in a run, by holder."""

from __future__ import annotations

from dataclasses import dataclass

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes per number."""

NOT_COUNTED = "Not counted: activations, keys and values while generating, CUDA's own, and what a strategy shards or copies."
"""The memory that the estimate leaves out."""

_STATES = {"AdamW": 2, "Adam": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "SGD": 0, "Adagrad": 1, "RMSprop": 1, "Adadelta": 2}


@dataclass(frozen=True)
class Held:
    """Memory of one holder."""

    what: str
    """The model and which of its numbers: `policy: gradients`."""
    parameters: int
    """The number of parameters."""
    bytes: int
    """Estimated."""


def estimate(parameters: int, trainable: int, dtype: str, optimizer: str, momentum: float, reference: bool) -> list[Held]:
    """Weights, gradients, optimizer states and reference, each of so many numbers of `dtype`.

    Args:
        parameters: of the policy.
        trainable: of them, which have gradients and optimizer states.
        dtype: of its weights; torch's optimizers keep their states in it.
        optimizer: class name; unknown ones count two states per parameter, as AdamW.
        momentum: of SGD; more than 0 keeps one state.
        reference: a frozen copy of the policy is held.
    """
    states = 1 if optimizer == "SGD" and momentum else _STATES.get(optimizer, 2)
    width = BYTES.get(dtype, BYTES["float32"])
    held = {
        "policy: weights": (parameters, 1),
        "policy: gradients": (trainable, 1),
        f"policy: {optimizer} states": (trainable, states),
        "reference: weights": (parameters, int(reference)),
    }
    return [Held(what, numbers, copies * numbers * width) for what, (numbers, copies) in held.items() if copies]
