"""Whose log-probs are the old ones: those of the engine that sampled, or the trainer's own, of one more forward pass."""

from __future__ import annotations

import torch

from lightrl.algorithms.algorithm import Algorithm
from lightrl.parts.engine import RolloutEngine

COARSE = 4
"""Bytes of a number below which the log-probs of engine and trainer differ by more than a clip can bear."""


def recomputes(algorithm: Algorithm, engine: RolloutEngine, ahead: int, dtype: torch.dtype) -> bool:
    """Whether the trainer computes the old log-probs.

    With `auto` it does where a correction compares them with the engine's, and where rounding alone would move ratios as far as a clip lets
    them: in dtypes of two bytes. Rollouts that are made ahead keep the engine's, so that the ratio shows how old their weights are.

    Args:
        algorithm: that learns.
        engine: that samples.
        ahead: rollouts that are made ahead.
        dtype: that the trainer's layers compute in.
    """
    known = engine.exact_logprobs and engine.comparable_logprobs and algorithm.sampler.samples_all
    if not known or algorithm.old_logprobs != "auto":
        return not known or algorithm.old_logprobs == "recompute"
    return algorithm.correction is not None or (dtype.itemsize < COARSE and not ahead)


def said(algorithm: Algorithm, engine: RolloutEngine, ahead: int, dtype: torch.dtype) -> str | None:
    """A sentence for the start of a run whose precision has decided; None: it has not.

    Args:
        algorithm: see `recomputes`.
        engine: see `recomputes`.
        ahead: see `recomputes`.
        dtype: see `recomputes`.
    """
    if algorithm.old_logprobs != "auto" or dtype.itemsize >= COARSE or not engine.exact_logprobs:
        return None
    name = str(dtype).removeprefix("torch.")
    if recomputes(algorithm, engine, ahead, dtype):
        return (
            f"In {name} the engine's log-probs differ from the trainer's by rounding, so the old log-probs are computed anew: one more "
            "forward pass over each rollout. algorithm.old_logprobs: rollout takes the engine's"
        )
    return (
        f"In {name} the engine's log-probs differ from the trainer's by rounding, and rollouts that are made ahead keep them as the old "
        "ones: some ratios are beyond the clip before the first step. Set algorithm.correction to have them computed anew"
    )
