"""At most how many tokens a prompt has, told from its length: a million prompts need not be cut into tokens to see that they are short."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from itertools import islice

from lightrl.text.chat_text import MARKS
from lightrl.text.control_tokens import unused
from lightrl.text.encoding import render
from lightrl.text.plain_text import plain_text
from lightrl.text.tokenizer import Backend, BackendStep, Tokenizer
from lightrl.types import JSON, Message, Prompt

Longest = Callable[[str], int | None]
"""At most how many tokens a text has; None: unknown."""
CHARACTERS = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
"""The pre-tokenizer of `character_tokenizer`."""
ONLY_CUT = {"Split", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "CharDelimiterSplit"}
"""Pre-tokenizers that add nothing to a text."""
COMPOSED = 3
"""By how much composing characters (NFC) can lengthen a text in UTF-8, at most.

Source: Unicode Technical Report 36, table of maximum expansion factors.
"""


class TokenBound:
    """At most how many tokens a prompt has; None where only encoding tells.

    Two kinds of tokenizers read a text for certain: a byte-level one if it has all bytes of the text, with at least one byte per token, and
    one of characters if it knows them. A chat template adds the same text to all conversations of the same roles. The first of these is
    unknown, so that it is tried, and so are texts that spell control tokens.
    """

    def __init__(self, tokenizer: Tokenizer, ends: Collection[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._longest = _longest(tokenizer)
        self._first = plain_text(tokenizer, ends).control.first
        self._added = len(tokenizer("")["input_ids"])
        self._of_roles: dict[tuple[str, ...], int | None] = {}

    def __call__(self, prompt: Prompt) -> int | None:
        """At most how many tokens the prompt has; None: unknown."""
        if prompt.messages is not None:
            return self._of_messages(prompt.messages)
        found = self._of(prompt.text or "")
        return None if found is None else found + self._added

    def _of_messages(self, messages: Sequence[Message]) -> int | None:
        contents = [self._of(message["content"]) if message.keys() == {"role", "content"} else None for message in messages]
        roles = tuple(message["role"] for message in messages)
        if roles not in self._of_roles:
            # the caller encodes it, which says what is wrong with conversations of this form
            self._of_roles[roles] = self._around(roles) if self._tokenizer.chat_template else None
            return None
        around = self._of_roles[roles]
        known = [tokens for tokens in contents if tokens is not None]
        return None if around is None or len(known) < len(contents) else around + sum(known)

    def _around(self, roles: Sequence[str]) -> int | None:
        from jinja2 import TemplateError

        marks = list(islice(unused("", MARKS), len(roles)))
        messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
        try:
            text = render(self._tokenizer, messages, opened=True)
        except TemplateError:
            return None
        if any(text.count(mark) != 1 for mark in marks):
            return None
        return _bytes("".join(character for character in text if character not in marks))

    def _of(self, text: str) -> int | None:
        # of spaces alone nothing may be left
        return None if not text.strip() or self._first(text)[1] else self._longest(text)


def _longest(tokenizer: Tokenizer) -> Longest:
    if not tokenizer.is_fast:
        return _unknown
    backend = tokenizer.backend_tokenizer
    model, normalizer, cut = type(backend.model).__name__, _state(backend.normalizer), _state(backend.pre_tokenizer)
    if model == "WordLevel" and normalizer is None and cut == CHARACTERS:
        known = {token for token in tokenizer.get_vocab() if len(token) == 1}
        return lambda text: len(text) if known.issuperset(text) else None
    if model == "BPE" and normalizer in (None, {"type": "NFC"}) and _reads_bytes(cut):
        return _of_bytes(tokenizer, backend)
    return _unknown


def _unknown(text: str) -> None:
    return None


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode()) * COMPOSED


def _state(step: BackendStep | None) -> JSON:
    return None if step is None else json.loads(step.__getstate__())


def _reads_bytes(cut: JSON) -> bool:
    steps = [] if cut is None else cut["pretokenizers"] if cut["type"] == "Sequence" else [cut]
    others = [step for step in steps if step["type"] not in ONLY_CUT]
    return len(others) == 1 and others[0]["type"] == "ByteLevel" and not others[0]["add_prefix_space"]


def _of_bytes(tokenizer: Tokenizer, backend: Backend) -> Longest:
    from tokenizers.pre_tokenizers import ByteLevel

    if backend.model.continuing_subword_prefix or backend.model.end_of_word_suffix:
        return _unknown
    vocabulary, letters = tokenizer.get_vocab().keys(), ByteLevel(add_prefix_space=False, use_regex=False)
    if vocabulary >= set(ByteLevel.alphabet()):
        return _bytes
    # a byte without a token is left out, and of such bytes alone nothing is left
    known = {character for character in map(chr, range(128)) if letters.pre_tokenize_str(character)[0][0] in vocabulary}
    return lambda text: len(text) if known.issuperset(text) else None
