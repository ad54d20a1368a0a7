"""Choosing among the prompts of a source: those that are held out, and those that training must not see."""

from __future__ import annotations

from collections.abc import Sequence

from lightrl.data.identity import Identity
from lightrl.parts.prompts import PromptSource
from lightrl.types import Prompt


class Selection(PromptSource):
    """Some prompts of a sized source, in the source's order."""

    def __init__(self, source: PromptSource, indices: Sequence[int]) -> None:
        """
        Args:
            source: where the prompts come from.
            indices: numbers of those that are kept.
        """
        self.source = source
        self._indices = list(indices)

    @property
    def size(self) -> int:
        return len(self._indices)

    def prompt(self, index: int) -> Prompt:
        return self.source.prompt(self._indices[index])

    def place(self, index: int) -> str:
        """As the source says."""
        return self.source.place(self._indices[index])


def hold_out(source: PromptSource, count: int, identity: Identity) -> tuple[Selection, Selection]:
    """Split a sized source into training prompts and `count` held-out ones.

    Prompts go by the order of their identity's hash, so the choice does not depend on the order of the rows or on a seed,
    and equal prompts stay together.

    Args:
        source: sized.
        count: how many are held out.
        identity: equal for prompts that stay together.

    Raises:
        ValueError: the source is endless, nothing would be left to train on, or duplicates leave no way to hold out exactly that many.
    """
    if source.size is None:
        raise ValueError("nothing can be held out from an endless training source: give a validation source instead of validation_size")
    size = source.size
    if count >= size:
        raise ValueError(f"validation_size is {count}, but there are only {size} training prompts to hold out from")
    equal: dict[str, list[int]] = {}
    for index in range(size):
        equal.setdefault(identity(source.prompt(index)), []).append(index)
    held: list[int] = []
    for name in sorted(equal):
        held += equal[name] if len(held) + len(equal[name]) <= count else []
    if len(held) != count:
        raise ValueError(
            f"validation_size is {count}, but equal prompts stay together and only {len(held)} can be held out: "
            + (f"set validation_size to {len(held)}, or remove the duplicates" if held else "remove the duplicates")
        )
    chosen = set(held)
    return Selection(source, [i for i in range(size) if i not in chosen]), Selection(source, sorted(held))


def without(source: PromptSource, others: Sequence[PromptSource], identity: Identity) -> Selection:
    """The prompts of a sized source that occur in none of the others.

    Args:
        source: sized.
        others: whose prompts are left out.
        identity: equal for prompts that are the same.

    Raises:
        ValueError: that leaves none.
    """
    seen = {identity(other.prompt(i)) for other in others for i in range(other.size or 0)}
    kept = [i for i in range(source.size or 0) if identity(source.prompt(i)) not in seen]
    if not kept:
        raise ValueError(f"all {source.size} training prompts occur in validation or test: there is nothing left to train on")
    return Selection(source, kept)
