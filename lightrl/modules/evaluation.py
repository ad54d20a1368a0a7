"""How the policy is evaluated on held-out prompts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Evaluation:
    """Settings of validation and test; what is not given follows the engine's own sampling."""

    samples: int = 1
    """Completions per prompt."""
    temperature: float | None = None
    """Divides the logits; 0 takes the likeliest token; None: as in training."""
    top_p: float | None = None
    """Keep the likeliest tokens whose probabilities add up to this; None: as in training."""
    max_new_tokens: int | None = None
    """Limit on the tokens of a completion; None: as in training."""
    before_training: bool = True
    """Evaluate the policy once before its first step."""
