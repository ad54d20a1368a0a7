"""Texts of others as plain text: a control token that they spell is read as letters, never as the token.

A text of the data, of a tool or of an environment may contain `<|im_end|>`. Read as the token it would end a turn. So each such place is
one private character while the chat template renders; then the tokens that the template itself wrote get other names, and a copy of
the tokenizer that knows them by these names only reads the whole. Where nothing is spelled, the tokenizer itself reads the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from lightrl.policy.renamed_tokens import has_dummy_prefix, rename_tokens
from lightrl.policy.tokenizer import Backend, Tokenizer
from lightrl.prompt import JSON

PRIVATE = range(0xF0000, 0xFFFFE)
"""Characters without a meaning in Unicode: hardly a text has them, and templates leave them as they are."""
_PRIVATE = re.compile(f"[{chr(PRIVATE.start)}-{chr(PRIVATE.stop - 1)}]")

Tokens = tuple[list[int], list[tuple[int, int]]]
"""Ids, and which characters each stands for, from the first to before the last; none of a tokenizer that is not fast."""


@dataclass(frozen=True)
class Masked:
    """Texts in which private characters stand for what must not become a control token."""

    value: JSON
    """The texts, in the form in which they came."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """What each private character stands for."""
    special: int = 0
    """How many control tokens the texts spelled."""


@dataclass(frozen=True)
class Written:
    """A text that is to be cut into tokens."""

    text: str
    """As it is read."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The private character by which the text has each control token; none: it has them by their usual names."""
    places: Sequence[tuple[int, int]] | None = None
    """Per character: which characters of the rendering it stands for, from the first to before the last; None: the text is the rendering."""


class PlainText:
    """Reads texts so that no control token counts but those that a chat template wrote."""

    def __init__(self, tokenizer: Tokenizer, ends: Collection[int] = ()) -> None:
        """
        Args:
            tokenizer: its added tokens that are special are control tokens.
            ends: ids of added tokens that are control tokens as well, since they end a completion.
        """
        self._tokenizer = tokenizer
        added = {i: str(token) for i, token in tokenizer.added_tokens_decoder.items() if token.special or i in ends}
        self._names = sorted(set(added.values()) - {""}, key=lambda name: (-len(name), name))
        # an unknown character is read as the unknown token, whatever it is
        self._ids = {i for i, name in added.items() if name != tokenizer.unk_token}
        self._pattern = re.compile(f"({'|'.join(map(re.escape, self._names)) or '(?!)'})")
        self._beginnings = {name[:i] for name in self._names for i in range(1, len(name))}
        self._endings = {name[i:] for name in self._names for i in range(1, len(name))}
        self._longest = max(map(len, self._names), default=0)
        self._copies = lru_cache(maxsize=4)(self._copy)

    def count(self, text: str) -> int:
        """How many control tokens the text spells."""
        return len(self._pattern.findall(text))

    def mask(self, value: JSON) -> Masked:
        """Texts with a private character wherever they spell a control token.

        The same at their edges for a part of one, since the rest may stand in the next text.

        Args:
            value: a text, messages, schemas of tools, or another JSON value. Keys stay, and roles that are no control token.
        """
        letters: dict[str, str] = {}
        free = unused(value)

        def letter(part: str) -> str:
            return letters.setdefault(part, next(free))

        found = [0]
        masked = self._mask(value, letter, found)
        return Masked(masked, {private: part for part, private in letters.items()}, found[0]) if letters else Masked(value)

    def written(self, text: str, hidden: Mapping[str, str]) -> Written:
        """A rendering of masked texts, ready to be read.

        Args:
            text: the rendering.
            hidden: of `Masked`.
        """
        return self._exchanged(text, hidden) if hidden else Written(text)

    def said(self, text: str) -> Written:
        """A text without any control token, ready to be read.

        Args:
            text: of others.
        """
        return Written(text, self._new_names(text) if self.count(text) else {})

    def read(self, written: Written, add: bool = False, middle: bool = False) -> Tokens:
        """The tokens of a text.

        Args:
            written: the text.
            add: the tokenizer adds its special tokens.
            middle: it stands behind other text, so the tokenizer puts no space in front of it.
        """
        head = self._head(written) if middle else ""
        if head and self._has_dummy_prefix:
            return self._read_after_others(written, head)
        if written.names:
            return _read(self._copies(tuple(written.names.items()), True), written, add)
        encoding = self._tokenizer(written.text, add_special_tokens=add, return_offsets_mapping=self._tokenizer.is_fast, verbose=False)
        ids = list(encoding["input_ids"])
        if sum(i in self._ids for i in ids) > self.count(written.text) + add * self._added:
            # a normalizer has made a control token of other letters
            return self.read(self._exchanged(written.text, {}), add)
        return ids, list(encoding["offset_mapping"]) if self._tokenizer.is_fast else []

    def head_and_control(self, text: str) -> tuple[str, str]:
        """What stands in front of the first control token of a rendering, and this token; the whole and nothing if there is none."""
        found = self._pattern.search(text)
        return (text, "") if found is None else (text[: found.start()], found[0])

    @cached_property
    def _has_dummy_prefix(self) -> bool:
        return has_dummy_prefix(self._tokenizer)

    @cached_property
    def _added(self) -> int:
        return sum(i in self._ids for i in self._tokenizer("")["input_ids"])

    def _copy(self, names: tuple[tuple[str, str], ...], dummy_prefix: bool) -> Backend:
        return rename_tokens(self._tokenizer, dict(names), dummy_prefix)

    def _new_names(self, text: str) -> dict[str, str]:
        return dict(zip(self._names, unused(text), strict=False))

    def _read_after_others(self, written: Written, head: str) -> Tokens:
        names, places = written.names or self._new_names(head), written.places or [(i, i + 1) for i in range(len(written.text))]
        first = _read(self._copies(tuple(names.items()), False), Written(head, names, places[: len(head)]), False)
        rest = Written(written.text[len(head) :], written.names, places[len(head) :])
        if written.names:
            second = self.read(rest)
        else:
            ids, offsets = self.read(Written(rest.text))
            second = ids, [(start + len(head), end + len(head)) for start, end in offsets]
        return first[0] + second[0], first[1] + second[1]

    def _exchanged(self, text: str, hidden: Mapping[str, str]) -> Written:
        """What was hidden stands there again, and the template's own control tokens are hidden."""
        names = self._new_names("".join([*hidden.values(), *(c for c in _PRIVATE.findall(text) if c not in hidden)]))
        exchange = {**names, **hidden}
        pieces = re.split(f"({'|'.join(map(re.escape, [*self._names, *hidden]))})", text)
        places, at = [], 0
        for number, piece in enumerate(pieces):
            through = at + len(piece)
            exchanged = number % 2 == 1
            places += [(at, through)] * len(exchange[piece]) if exchanged else [(i, i + 1) for i in range(at, through)]
            at = through
        pieces[1::2] = [exchange[piece] for piece in pieces[1::2]]
        return Written("".join(pieces), names, places)

    def _head(self, written: Written) -> str:
        if not written.names:
            return self.head_and_control(written.text)[0]
        own = set(written.names.values())
        return written.text[: next((i for i, character in enumerate(written.text) if character in own), None)]

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
            return {name: self._mask(inner, letter, found, name) for name, inner in value.items()}
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
    """Private characters that a value does not have.

    Args:
        value: a text, or any JSON value.
        among: their code points.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return (chr(i) for i in among if chr(i) not in text)


@lru_cache(maxsize=8)
def _plain_text(tokenizer: Tokenizer, ends: frozenset[int], size: int) -> PlainText:
    return PlainText(tokenizer, ends)


def plain_text(tokenizer: Tokenizer, ends: Collection[int] = ()) -> PlainText:
    """The `PlainText` of a tokenizer, made once.

    Args:
        tokenizer: as for `PlainText`.
        ends: as for `PlainText`.
    """
    # tokens may have been added since
    return _plain_text(tokenizer, frozenset(ends), len(tokenizer))


def _read(backend: Backend, written: Written, add: bool) -> Tokens:
    encoding = backend.encode(written.text, add_special_tokens=add)
    places = written.places
    if places is None:
        return list(encoding.ids), list(encoding.offsets)
    return list(encoding.ids), [(places[i][0], places[j - 1][1]) if j > i else (0, 0) for i, j in encoding.offsets]
