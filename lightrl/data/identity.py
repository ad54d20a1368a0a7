"""The identity of a prompt among the sources of a run: which prompts must not be on both sides of a split."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from lightrl.data.progress import shown
from lightrl.parts.prompts import PromptSource
from lightrl.types import Prompt

CONTENT = 8
"""Bytes of a content's hash, and of an answer's."""


class Identities:
    """The identities by which prompts of these sources are told apart.

    The identity is the content. A content that one source has with several answers does not decide what is asked: such prompts differ
    by their answers as well.
    """

    def __init__(self, sources: Iterable[PromptSource]) -> None:
        """
        Args:
            sources: of the run; those that are endless have no part in it.
        """
        self._known: dict[int, NDArray[np.bytes_]] = {}
        self._several = np.unique(np.concatenate([_with_several_answers(source, self._contents(source)) for source in sources]))

    def of(self, source: PromptSource) -> NDArray[np.bytes_]:
        """The identity of each prompt, 16 bytes that are equal for prompts that count as one.

        Args:
            source: of the run, or some prompts of one.
        """
        contents = self._contents(source)
        found = contents.astype(f"S{2 * CONTENT}")
        for index in np.flatnonzero(np.isin(contents, self._several)).tolist():
            found[index] = bytes(contents[index]).ljust(CONTENT, b"\0") + _answer_hash(source.prompt(index))
        return found

    def _contents(self, source: PromptSource) -> NDArray[np.bytes_]:
        if id(source) not in self._known:
            hashes = (bytes.fromhex(source.content(i)) for i in shown(range(source.size or 0), "comparing prompts"))
            self._known[id(source)] = np.frombuffer(b"".join(hashes), f"S{CONTENT}")
        return self._known[id(source)]


def _with_several_answers(source: PromptSource, contents: NDArray[np.bytes_]) -> NDArray[np.bytes_]:
    _, group, counts = np.unique(contents, return_inverse=True, return_counts=True)
    answers: dict[bytes, set[bytes]] = {}
    for index in np.flatnonzero(counts[group] > 1).tolist():
        answers.setdefault(bytes(contents[index]), set()).add(_answer_hash(source.prompt(index)))
    return np.array([content for content, found in answers.items() if len(found) > 1], f"S{CONTENT}")


def _answer_hash(prompt: Prompt) -> bytes:
    return blake2b(json.dumps(prompt.answer, sort_keys=True, default=str).encode(), digest_size=CONTENT).digest()
