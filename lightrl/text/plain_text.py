"""Texts of others as plain text: a control token that they spell is read as letters, never as the token.

A text of the data, of a tool or of an environment may contain `<|im_end|>`. Read as the token it would end a turn. So each such place is
one private character while the chat template renders; then the tokens that the template itself wrote get other names, and a copy of
the tokenizer that knows them by these names only reads the whole. Where nothing is spelled, the tokenizer itself reads the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from lightrl.prompt import JSON
from lightrl.text.control_tokens import ControlTokens, unused
from lightrl.text.tokenizer import Backend, Tokenizer

Tokens = tuple[list[int], list[tuple[int, int]]]
"""Ids, and which characters each stands for, from the first to before the last; none of a tokenizer that is not fast."""


@dataclass(frozen=True)
class Written:
    """A text that is to be cut into tokens."""

    text: str
    """As it is read."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The private character by which the text has each control token; none: it has them by their usual names."""
    places: Sequence[tuple[int, int]] | None = None
    """Per character: which characters of the rendering it stands for, from the first to before the last; None: it is the rendering."""


class PlainText:
    """Reads texts so that no control token counts but those that a chat template wrote."""

    def __init__(self, tokenizer: Tokenizer, ends: Collection[int] = ()) -> None:
        self._tokenizer = tokenizer
        self.control = ControlTokens(tokenizer, ends)
        self._copies = lru_cache(maxsize=4)(self._copy)

    def written(self, text: str, hidden: Mapping[str, str]) -> Written:
        """A rendering of masked texts, ready to be read."""
        return self._exchanged(text, hidden) if hidden else Written(text)

    def said(self, text: str) -> Written:
        """A text without any control token, ready to be read."""
        return Written(text, self._new_names(text) if self.control.count(text) else {})

    def read(self, written: Written, add: bool = False, middle: bool = False) -> Tokens:
        """The tokens of a text.

        Args:
            add: the tokenizer adds its special tokens.
            middle: it stands behind other text, so the tokenizer puts no space in front of it.

        Raises:
            ValueError: the text spells a control token, and the tokenizer is not fast.
        """
        head = self._head(written) if middle else ""
        if head and self._has_dummy_prefix:
            return self._read_after_others(written, head)
        if written.names:
            return _read(self._copies(tuple(written.names.items()), True), written, add)
        encoding = self._tokenizer(written.text, add_special_tokens=add, return_offsets_mapping=self._tokenizer.is_fast, verbose=False)
        ids = list(encoding["input_ids"])
        if sum(i in self.control.ids for i in ids) > self.control.count(written.text) + add * self._added:
            # a normalizer has made a control token of other letters
            return self.read(self._exchanged(written.text, {}), add)
        return ids, list(encoding["offset_mapping"]) if self._tokenizer.is_fast else []

    @cached_property
    def _has_dummy_prefix(self) -> bool:
        return has_dummy_prefix(self._tokenizer)

    @cached_property
    def _added(self) -> int:
        return sum(i in self.control.ids for i in self._tokenizer("")["input_ids"])

    def _copy(self, names: tuple[tuple[str, str], ...], dummy_prefix: bool) -> Backend:
        if not self._tokenizer.is_fast:
            raise ValueError(
                f"a text spells a control token, and {type(self._tokenizer).__name__} cannot read it as plain text: save a fast tokenizer "
                "(tokenizer.json) with the policy, or take the control tokens out of the data"
            )
        return rename_tokens(self._tokenizer, dict(names), dummy_prefix)

    def _new_names(self, text: str) -> dict[str, str]:
        return dict(zip(self.control.names, unused(text), strict=False))

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
        """Show again what was hidden, and hide the template's own control tokens."""
        names = self._new_names("".join([*hidden.values(), *(character for character in text if character not in hidden)]))
        exchange = {**names, **hidden}
        pieces = re.split(f"({'|'.join([self.control.any, *hidden])})", text)
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
            return self.control.first(written.text)[0]
        own = set(written.names.values())
        return written.text[: next((i for i, character in enumerate(written.text) if character in own), None)]


@lru_cache(maxsize=8)
def _plain_text(tokenizer: Tokenizer, ends: frozenset[int], size: int) -> PlainText:
    return PlainText(tokenizer, ends)


def plain_text(tokenizer: Tokenizer, ends: Collection[int] = ()) -> PlainText:
    """The `PlainText` of a tokenizer, made once."""
    # tokens may have been added since
    return _plain_text(tokenizer, frozenset(ends), len(tokenizer))


def _read(backend: Backend, written: Written, add: bool) -> Tokens:
    encoding = backend.encode(written.text, add_special_tokens=add)
    places = written.places
    if places is None:
        return list(encoding.ids), list(encoding.offsets)
    return list(encoding.ids), [(places[i][0], places[j - 1][1]) if j > i else (0, 0) for i, j in encoding.offsets]


def rename_tokens(tokenizer: Tokenizer, names: Mapping[str, str], dummy_prefix: bool) -> Backend:
    """A copy that gives the same ids, but knows some tokens by other names only.

    Not even the vocabulary has the old names: a Unigram or word-level model would find them there.

    Args:
        tokenizer: fast; stays as it is.
        dummy_prefix: the copy puts a space in front of a text if the tokenizer does, as for the beginning of a row; otherwise never.
    """
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    for token in spec["added_tokens"]:
        token["content"] = names.get(token["content"], token["content"])
    spec["model"] = _renamed(spec["model"], names)
    if not dummy_prefix:
        spec["normalizer"], spec["pre_tokenizer"] = without_dummy_prefix(spec["normalizer"]), without_dummy_prefix(spec["pre_tokenizer"])
    made = tokenizer.backend_tokenizer.from_str(json.dumps(spec))
    made.no_truncation()
    made.no_padding()
    return made


def has_dummy_prefix(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer puts a space in front of a text.

    Args:
        tokenizer: any; of one that is not fast nobody knows, and it counts as one that does not.
    """
    if not tokenizer.is_fast:
        return False
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    return any(without_dummy_prefix(spec[step]) != spec[step] for step in ("normalizer", "pre_tokenizer"))


def without_dummy_prefix(step: JSON) -> JSON:
    """A normalizer or pre-tokenizer, as `tokenizer.json` has it, that puts no space in front of a text.

    Args:
        step: or None, if there is none; also a sequence of several.
    """
    if not isinstance(step, dict):
        return step
    if step["type"] == "Sequence":
        key = "normalizers" if "normalizers" in step else "pretokenizers"
        steps = [without_dummy_prefix(inner) for inner in step[key]]
        return {**step, key: [inner for inner in steps if inner is not None]}
    if step["type"] == "Prepend":
        return None
    never: dict[str, dict[str, JSON]] = {"Metaspace": {"prepend_scheme": "never"}, "ByteLevel": {"add_prefix_space": False}}
    return {**step, **never.get(step["type"], {})}


def _renamed(model: Mapping[str, JSON], names: Mapping[str, str]) -> dict[str, JSON]:
    vocabulary = model["vocab"]
    made = dict(model)
    if isinstance(vocabulary, list):
        made["vocab"] = [[names.get(piece, piece), score] for piece, score in vocabulary]
    else:
        made["vocab"] = {names.get(piece, piece): i for piece, i in vocabulary.items()}
    if model.get("unk_token") is not None:
        made["unk_token"] = names.get(model["unk_token"], model["unk_token"])
    if model.get("merges"):
        made["merges"] = [merge for merge in model["merges"] if "".join(merge) not in names and names.keys().isdisjoint(merge)]
    return made
