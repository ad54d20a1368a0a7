"""The control tokens of a tokenizer, and texts in which private characters hide them from a chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from lightrl.ops.thoughts import MARKS
from lightrl.prompt import JSON
from lightrl.text.tokenizer import Tokenizer

PRIVATE = range(0xF0000, 0xFFFFE)
"""Characters without a meaning in Unicode: hardly a text has them, and templates leave them as they are."""


@dataclass(frozen=True)
class Masked:
    """Texts in which private characters stand for what must not become a control token."""

    value: JSON
    """The texts, in the form in which they came."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """What each private character stands for."""
    special: int = 0
    """How many control tokens the texts spelled."""


class ControlTokens:
    """The tokens that open or close something, by the strings that spell them."""

    def __init__(self, tokenizer: Tokenizer, ends: Collection[int]) -> None:
        """
        Args:
            tokenizer: its added tokens that are special are control tokens.
            ends: ids of added tokens that are control tokens as well, since they end a completion.
        """
        added = {i: str(token) for i, token in tokenizer.added_tokens_decoder.items() if token.special or i in ends}
        self.names = sorted(set(added.values()) - {""}, key=lambda name: (-len(name), name))
        """How they are spelled, the longest first."""
        # an unknown character is read as the unknown token, whatever it is
        self.ids = {i for i, name in added.items() if name != tokenizer.unk_token}
        """Their ids, but for the unknown token's."""
        self.any = "|".join(map(re.escape, self.names)) or "(?!)"
        """A regular expression that finds each."""
        self._pattern = re.compile(f"({self.any})")
        self._beginnings = {name[:i] for name in self.names for i in range(1, len(name))}
        self._endings = {name[i:] for name in self.names for i in range(1, len(name))}
        self._longest = max(map(len, self.names), default=0)

    def count(self, text: str) -> int:
        """How many control tokens the text spells."""
        return len(self._pattern.findall(text))

    def first(self, text: str) -> tuple[str, str]:
        """The text before the first control token of a rendering, and this token; the whole text and nothing if there is none."""
        found = self._pattern.search(text)
        return (text, "") if found is None else (text[: found.start()], found[0])

    def mask(self, value: JSON) -> Masked:
        """Texts with a private character wherever they spell a control token.

        The same at their edges for a part of one, since the rest may stand in the next text.

        Args:
            value: a text, messages, schemas of tools, or another JSON value. Keys and roles stay that spell no control token.
        """
        letters: dict[str, str] = {}
        free = unused(value)

        def letter(part: str) -> str:
            return letters.setdefault(part, next(free))

        found = [0]
        masked = self._mask(value, letter, found)
        return Masked(masked, {private: part for part, private in letters.items()}, found[0]) if letters else Masked(value)

    def _mask(self, value: JSON, letter: Callable[[str], str], found: list[int], key: str = "") -> JSON:
        if isinstance(value, str):
            pieces = self._pattern.split(value)
            found[0] += len(pieces) // 2
            pieces[1::2] = [letter(token) for token in pieces[1::2]]
            if key != "role":
                pieces[0] = self._without_ending(pieces[0], letter)
                pieces[-1] = self._without_beginning(pieces[-1], letter)
            return "".join(pieces)
        if isinstance(value, Mapping):
            # the name of an argument of a call may be anything
            return {self._mask(name, letter, found, "role"): self._mask(inner, letter, found, name) for name, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._mask(inner, letter, found) for inner in value]
        return value

    def _without_ending(self, text: str, letter: Callable[[str], str]) -> str:
        start = len(text) - len(text.lstrip())
        for n in range(min(len(text) - start, self._longest), 0, -1):
            if (part := text[start : start + n]) in self._endings:
                return text[:start] + letter(part) + text[start + n :]
        return text

    def _without_beginning(self, text: str, letter: Callable[[str], str]) -> str:
        stop = len(text.rstrip())
        for n in range(min(stop, self._longest), 0, -1):
            if (part := text[stop - n : stop]) in self._beginnings:
                return text[: stop - n] + letter(part) + text[stop:]
        return text


def unused(value: JSON, among: range = PRIVATE) -> Iterator[str]:
    """Private characters that a value does not have. `among`: their code points."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    yield from (chr(i) for i in among if chr(i) not in text)


def mark_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """The special tokens that marks of thoughts are written with."""
    special = {i: str(token) for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    return frozenset(i for i, text in special.items() if text and text in " ".join([*MARKS, *MARKS.values()]))


def decoded(tokenizer: Tokenizer, ids: Sequence[int], marks: frozenset[int]) -> str:
    """The text of ids, special tokens left out, but for the marks of thoughts."""
    pieces = [(False, ids)] if marks.isdisjoint(ids) else groupby(ids, key=marks.__contains__)
    return "".join(tokenizer.decode(list(piece), skip_special_tokens=not kept) for kept, piece in pieces)
