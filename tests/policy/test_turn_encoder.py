"""Rows of several turns, by chat templates of all families: they only grow, by the template's own tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightrl.policy.turn_encoder import TurnEncoder

OPENINGS = {
    "chatml": ("", ""),
    "headers": ("", ""),
    "start_of_turn": ("", ""),
    "role_tokens": ("", ""),
    "role_letters": ("", ""),
    "turn_tokens": ("", ""),
    "letters": ("", " "),
    "thinking": ("", ""),
    "instructions": ("", " "),
    "drops_reasoning": ("<think>\n", ""),
    "late_system": ("", ""),
}
"""How each template opens an answer, and what it writes in its place once it is answered."""
WITHOUT_SYSTEM = {"start_of_turn", "late_system"}
WITHOUT_TOOL = {"start_of_turn", "thinking"}
WITHOUT_LATER_SYSTEM = {"instructions", "drops_reasoning", "late_system", "start_of_turn"}
MAKES = ["bytes", "byte pairs", "byte pairs behind a space", "always", "first", "prepend"]
TEXTS = st.text(st.sampled_from("ab \n:<>|é🙂\u3000\t") | st.characters(codec="utf-8"), max_size=8)
Make = Callable[..., Any]


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def encoder(tokenizer: Any, *more: int) -> TurnEncoder:
    return TurnEncoder(tokenizer, frozenset({tokenizer.eos_token_id, *more}))


@st.composite
def conversations(draw: st.DrawFn, template: str, texts: st.SearchStrategy[str] = TEXTS) -> tuple[list[dict[str, str]], list[Any]]:
    """An opening, and replies."""
    opening = [message("user", draw(texts))]
    if template not in WITHOUT_SYSTEM and draw(st.booleans()):
        opening.insert(0, message("system", draw(texts)))
    roles = ["user"] + ["tool"] * (template not in WITHOUT_TOOL) + ["system"] * (template not in WITHOUT_LATER_SYSTEM)
    more = st.lists(st.builds(message, st.sampled_from(roles), texts), min_size=1, max_size=2)
    return opening, draw(st.lists(texts | more, min_size=1, max_size=3))


def as_messages(reply: Any) -> list[dict[str, str]]:
    return [message("user", reply)] if isinstance(reply, str) else reply


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_rows_grow_by_the_tokens_of_the_templates_own_rendering(tokenizer_of: Make, data: st.DataObject) -> None:
    template, make = data.draw(st.sampled_from(sorted(OPENINGS))), data.draw(st.sampled_from(MAKES))
    opening, replies = data.draw(conversations(template))
    tokenizer = tokenizer_of(template, make)
    talk, words = list(opening), [f"said{i}" for i in range(len(replies))]
    for word, reply in zip(words, replies, strict=True):
        talk += [message("assistant", word), *as_messages(reply)]
    text = tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    first, later = OPENINGS[template]
    for word in words:
        text = text.replace(later + word, first + word)
    turns, talk = encoder(tokenizer), list(opening)
    assert turns.opening(opening).ids == tokenizer(text[: text.index(words[0])], add_special_tokens=False)["input_ids"]
    for number, (word, reply) in enumerate(zip(words, replies, strict=True)):
        behind = text.index(word) + len(word)
        upto = text.index(words[number + 1]) if word != words[-1] else len(text)
        whole = tokenizer(text[:upto], add_special_tokens=False, return_offsets_mapping=True)
        expected = [i for i, (start, _) in zip(whole["input_ids"], whole["offset_mapping"], strict=True) if start >= behind]
        talk.append(message("assistant", word))
        cut_off, ended = (turns.continuation(talk, last, reply).ids for last in (tokenizer(word)["input_ids"][-1], tokenizer.eos_token_id))
        assert cut_off == expected
        assert ended == expected[expected[0] == tokenizer.eos_token_id :]
        talk += as_messages(reply)
