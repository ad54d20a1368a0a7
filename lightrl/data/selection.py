"""Choosing among the prompts of a source: by their identity, those that are held out, and those that training must not see."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lightrl.parts.prompts import PromptSource
from lightrl.types import Prompt
from lightrl.workers.waiting import shown

BYTES = 8
"""Of the hash of a content, of an answer and of an id."""


class Identities:
    """The identities by which prompts of these sources are told apart.

    The identity is the content. A content that one source has with several answers does not decide what is asked: such prompts differ
    by their answers as well.
    """

    def __init__(self, sources: Iterable[PromptSource]) -> None:
        """`sources`: of the run; those that are endless have no part in it."""
        self._known: dict[int, NDArray[np.bytes_]] = {}
        self._several = np.unique(np.concatenate([_with_several_answers(source, self._contents(source)) for source in sources]))

    def of(self, source: PromptSource) -> NDArray[np.bytes_]:
        """The identity of each prompt, 16 bytes that are equal for prompts that count as one.

        Args:
            source: of the run, or some prompts of one.
        """
        contents = self._contents(source)
        found = contents.astype(f"S{2 * BYTES}")
        for index in np.flatnonzero(np.isin(contents, self._several)).tolist():
            found[index] = bytes(contents[index]).ljust(BYTES, b"\0") + _answer_hash(source.prompt(index))
        return found

    def _contents(self, source: PromptSource) -> NDArray[np.bytes_]:
        if id(source) not in self._known:
            hashes = (bytes.fromhex(source.content(i)) for i in shown(range(source.size or 0), "comparing prompts"))
            self._known[id(source)] = np.frombuffer(b"".join(hashes), f"S{BYTES}")
        return self._known[id(source)]


def _with_several_answers(source: PromptSource, contents: NDArray[np.bytes_]) -> NDArray[np.bytes_]:
    _, group, counts = np.unique(contents, return_inverse=True, return_counts=True)
    answers: dict[bytes, set[bytes]] = {}
    for index in np.flatnonzero(counts[group] > 1).tolist():
        answers.setdefault(bytes(contents[index]), set()).add(_answer_hash(source.prompt(index)))
    return np.array([content for content, found in answers.items() if len(found) > 1], f"S{BYTES}")


def _answer_hash(prompt: Prompt) -> bytes:
    return _hash(json.dumps(prompt.answer, sort_keys=True, default=str))


def _hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=BYTES).digest()


class Selection(PromptSource):
    """Some prompts of a sized source, in the source's order."""

    def __init__(self, source: PromptSource, indices: ArrayLike) -> None:
        self.source = source
        self._indices = np.asarray(indices, np.int64)

    @property
    def size(self) -> int:
        return len(self._indices)

    def prompt(self, index: int) -> Prompt:
        return self.source.prompt(int(self._indices[index]))

    def place(self, index: int) -> str:
        return self.source.place(int(self._indices[index]))

    def content(self, index: int) -> str:
        return self.source.content(int(self._indices[index]))

    def part(self, index: int) -> str:
        return self.source.part(int(self._indices[index]))

    def shares(self, drawn: int) -> Mapping[str, float]:
        return self.source.shares(drawn)


def hold_out(source: PromptSource, count: int, identities: Identities) -> tuple[Selection, Selection]:
    """Split a sized source into training prompts and `count` held-out ones.

    Prompts go by the order of their identity's hash, so the choice does not depend on the order of the rows or on a seed,
    and equal prompts stay together.

    Args:
        identities: equal for prompts that stay together.

    Raises:
        ValueError: the source is endless, nothing would be left to train on, or duplicates leave no way to hold out exactly that many.
    """
    if source.size is None:
        raise ValueError("nothing can be held out from an endless training source: give a validation source instead of validation_size")
    size = source.size
    if count >= size:
        raise ValueError(f"validation_size is {count}, but there are only {size} training prompts to hold out from")
    _, group, sizes = np.unique(identities.of(source), return_inverse=True, return_counts=True)
    held, left = np.zeros(len(sizes), bool), count
    for number, together in enumerate(sizes.tolist()):
        held[number] = together <= left
        left -= together if held[number] else 0
    if left:
        possible = count - left
        raise ValueError(
            f"validation_size is {count}, but equal prompts stay together and only {possible} can be held out: "
            + (f"set validation_size to {possible}, or remove the duplicates" if possible else "remove the duplicates")
        )
    chosen = held[group]
    return Selection(source, np.flatnonzero(~chosen)), Selection(source, np.flatnonzero(chosen))


def without(source: PromptSource, others: Sequence[PromptSource], identities: Identities) -> Selection:
    """The prompts of a sized source that occur in none of the others.

    Args:
        identities: equal for prompts that are the same.

    Raises:
        ValueError: that leaves none.
    """
    kept = np.flatnonzero(~np.isin(identities.of(source), np.concatenate([identities.of(other) for other in others])))
    if not len(kept):
        raise ValueError(f"all {source.size} training prompts occur in validation or test: there is nothing left to train on")
    return Selection(source, kept)


class PromptsById:
    """The prompts of a sized source by id: 16 bytes for each, after one way through all of them."""

    def __init__(self, source: PromptSource) -> None:
        """Raises ValueError for an endless source."""
        if source.size is None:
            raise ValueError(
                "an endless training source has no prompts by id: give a source with a size, or a sampler that draws all prompts"
            )
        self._source = source
        hashes = b"".join(_hash(source.prompt(index).id) for index in shown(range(source.size), "numbering prompts"))
        found = np.frombuffer(hashes, np.uint64)
        self._order = np.argsort(found, kind="stable")
        self._hashes = found[self._order]

    def prompt(self, name: str) -> Prompt:
        """The prompt with this id; a ValueError if there is none."""
        wanted = np.frombuffer(_hash(name), np.uint64)[0]
        low, high = (int(np.searchsorted(self._hashes, wanted, side)) for side in ("left", "right"))
        for index in self._order[low:high].tolist():
            prompt = self._source.prompt(index)
            if prompt.id == name:
                return prompt
        raise ValueError(
            f"none of the {self._source.size} training prompts has the id {name!r}; the first one's is {self._source.prompt(0).id!r}"
        )
