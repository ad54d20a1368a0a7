"""Which references the parts of an algorithm ask, by the slots that hold them."""

from __future__ import annotations

from collections.abc import Container

from lightrl.parts.base import Part
from lightrl.parts.output import Comparison


def logprobs_of(slot: str) -> str:
    """The word by which a part asks for the log-probs of the reference in a slot of its algorithm, such as `teacher_logprobs`."""
    return "ref_logprobs" if slot == "reference" else f"{slot}_logprobs"


def comparisons_of(part: Part) -> list[Comparison]:
    """The outputs of a part that compare the policy with a reference."""
    return [output for output in (*part.outputs, *part.old_outputs) if isinstance(output, Comparison)]


def asked_of(part: Part) -> Container[str]:
    """The slots of the references that a part asks, for log-probs of sampled tokens or for all logits at them."""
    return {output.against for output in comparisons_of(part)} | {
        "reference" if word == "ref_logprobs" else word.removesuffix("_logprobs") for word in part.needs
    }
