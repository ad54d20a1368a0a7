"""The outcome of one check of a model."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["exact", "handled", "refused", "wrong", "not applicable", "measured"]

LIMIT = 2e-3
"""Largest difference of float32 log-probs that is rounding. Real faults differ by 0.05 and more."""


@dataclass(frozen=True)
class Check:
    """One property of a model: by itself as transformers runs it, and as lightrl runs it."""

    name: str
    """Of the property."""
    model: float | None = None
    """Largest difference of the model as transformers runs it; None: transformers has nothing to compare."""
    ours: float | None = None
    """Largest difference of the model as lightrl runs it; None: lightrl does not do this with the model."""
    says: str = ""
    """What is wrong, or what lightrl does about it."""
    limit: float | None = LIMIT
    """Largest difference that is rounding; None: the numbers are for the reader."""
    outcome: Verdict | None = None
    """The verdict, where there are no numbers to compare."""

    @property
    def verdict(self) -> Verdict:
        """`wrong` if lightrl would train with the fault, `handled` if only the model has it, `refused` if a run would end at its start."""
        if self.outcome is not None:
            return self.outcome
        if self.model is None and self.ours is None:
            return "not applicable"
        if self.limit is None:
            return "measured"
        if not (self.ours if self.ours is not None else 0.0) <= self.limit:
            return "wrong"
        if self.model is not None and not self.model <= self.limit:
            return "handled" if self.ours is not None else "wrong"
        return "exact"
