"""The tokens of a conversation that the assistant wrote, found by the tokenizer's own chat template."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightrl.text.encoding import check_fields, first_difference, must_be_fast, render
from lightrl.text.plain_text import plain_text
from lightrl.text.tokenizer import Tokenizer
from lightrl.types import JSON, Message

_MARKED = re.compile(r"\{%-?\s*generation\s*-?%\}")


@dataclass(frozen=True)
class Turns:
    """A conversation in tokens."""

    ids: list[int]
    """All of them, as the template writes the conversation, and EOS at the end where it writes none."""
    written: dict[int, range]
    """Per message of the assistant: the positions of its tokens, the EOS that ends it included."""
    special: int = 0
    """How many control tokens the messages spelled, which are plain text in `ids`."""


def tokenize_turns(tokenizer: Tokenizer, messages: Sequence[Message], wanted: Collection[int], ends: Collection[int], eos: int) -> Turns:
    """The tokens of a conversation, and which of them belong to some of its messages.

    A template may mark the assistant's words with `{% generation %}`. Otherwise a turn is the text between two renderings: the
    conversation before it, with the answer opened as for sampling, and the conversation through it.

    Args:
        wanted: numbers of messages of the assistant.
        ends: ids that end a turn when the policy samples them.
        eos: one of them, for a template that writes none.

    Raises:
        ValueError: no chat template, a tokenizer that is not fast, or a template by which a wanted turn cannot be found.
    """
    if not tokenizer.chat_template:
        raise ValueError("it is a conversation, and the tokenizer has no chat template: give model.policy a chat_template")
    must_be_fast(tokenizer, "save a fast one (tokenizer.json)")
    check_fields(tokenizer, messages)
    plain = plain_text(tokenizer, ends)
    masked = plain.control.mask(list(messages))
    marked = _MARKED.search(tokenizer.get_chat_template())
    text, spans = _marked(tokenizer, masked.value) if marked else _between(tokenizer, masked.value, wanted)
    ids, offsets = plain.read(plain.written(text, masked.hidden))
    if not set(ids) & set(ends):
        ids.append(eos)
        offsets.append((len(text), len(text) + 1))
        spans = {turn: (start, end + (end == len(text))) for turn, (start, end) in spans.items()}
    return Turns(ids, {turn: _through_eos(_covered(offsets, *spans[turn]), ids, ends) for turn in wanted}, masked.special)


def _marked(tokenizer: Tokenizer, messages: Sequence[Message]) -> tuple[str, dict[int, tuple[int, int]]]:
    from transformers.utils.chat_template_utils import render_jinja_template

    texts, found = render_jinja_template(
        conversations=[list(messages)],
        chat_template=tokenizer.get_chat_template(),
        return_assistant_tokens_mask=True,
        **tokenizer.special_tokens_map,
    )
    turns = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    if len(found[0]) != len(turns):
        raise ValueError(
            f"the chat template writes {len(found[0])} {{% generation %}} blocks for {len(turns)} messages of the assistant, so "
            "nothing says which is whose: have it write one for each"
        )
    return texts[0], dict(zip(turns, found[0], strict=True))


def _between(tokenizer: Tokenizer, messages: Sequence[Message], wanted: Collection[int]) -> tuple[str, dict[int, tuple[int, int]]]:
    whole = render(tokenizer, messages)
    spans = {}
    for turn in wanted:
        if turn == 0:
            raise ValueError("the conversation begins with a message of the assistant, which answers nothing: give it train: false")
        before, through = render(tokenizer, messages[:turn], opened=True), render(tokenizer, messages[: turn + 1])
        for part in (before, through):
            if not whole.startswith(part):
                at = first_difference(whole, part)
                raise ValueError(
                    f"the chat template is not prefix-stable, so the tokens of message {turn + 1} cannot be found: it writes "
                    f"{whole[at : at + 30]!r} in the whole conversation and {part[at : at + 30]!r} when the conversation ends there. Give "
                    "the policy a chat_template that marks the assistant's words with {% generation %}, or the message train: false"
                )
        spans[turn] = (len(before), len(through))
    return whole, spans


def _covered(offsets: Sequence[tuple[int, int]], start: int, end: int) -> range:
    """Tokens with a character of the span; a token that reaches over its beginning belongs to it, since it is sampled as a whole."""
    inside = [i for i, (first, last) in enumerate(offsets) if last > start and first < end]
    return range(inside[0], inside[-1] + 1) if inside else range(0)


def _through_eos(tokens: range, ids: Sequence[int], ends: Collection[int]) -> range:
    """Up to the EOS that ends the turn: a line break behind it is never sampled, and one that was left out of the span is."""
    found = [i for i in tokens if ids[i] in ends]
    if found:
        return range(tokens.start, found[-1] + 1)
    return range(tokens.start, tokens.stop + 1) if tokens and tokens.stop < len(ids) and ids[tokens.stop] in ends else tokens


TURN_WEIGHTS = "turn_weights"
"""In `Prompt.meta`: per message the weight that it was given, null where it says nothing."""


def turn_weights(place: str, turns: Sequence[Mapping[str, Any]]) -> dict[str, JSON]:
    """The weights that messages give themselves, by `train: false` or `weight: 0.5`; empty if none does.

    Raises:
        ValueError: a weight is no finite number of 0 or more, or a message of somebody else than the assistant is to be learnt.
    """
    # a table has every key in every row, null where a message does not have it
    if all(turn.get("train") is None and turn.get("weight") is None for turn in turns):
        return {}
    return {TURN_WEIGHTS: [_weight(f"{place}: message {number}", turn) for number, turn in enumerate(turns, 1)]}


def _weight(message: str, turn: Mapping[str, Any]) -> float | None:
    train, weight = turn.get("train"), turn.get("weight")
    if train is None and weight is None:
        return None
    if train is not None and weight is not None:
        raise ValueError(f"{message} has both train and weight: give one of them")
    if train is not None and not isinstance(train, bool):
        raise ValueError(f"{message}: train must be true or false, got {train!r:.40}")
    if weight is not None and (isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < math.inf):
        raise ValueError(f"{message}: weight must be a finite number of 0 or more, got {weight!r:.40}")
    value = float(bool(train) if weight is None else weight)
    if value and turn["role"] != "assistant":
        raise ValueError(f"{message} is the {turn['role']}'s and cannot be learnt on its own: only messages of the assistant have a weight")
    return value
