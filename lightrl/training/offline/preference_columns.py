"""The columns of preference data: the names of those with a prompt and its completions."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lightrl.data.records import message_of
from lightrl.prompt import FIELDS
from lightrl.types import JSON, Message, Prompt


@dataclass(frozen=True)
class PreferenceColumns:
    """Names of the columns."""

    chosen: str
    """The better completion of a pair."""
    rejected: str
    """The worse one."""
    completion: str
    """A completion with a label."""
    label: str
    """Whether it is good."""


def paired_texts(prompt: Prompt, chosen: str = "chosen", rejected: str = "rejected") -> tuple[Prompt, str, str]:
    """The prompt, the better and the worse completion; a ValueError names a prompt whose columns hold no two different ones.

    A completion is a text, a list with the assistant's message, or a whole conversation that begins with the prompt. Where the prompt is
    itself one of the two conversations, the messages that both begin with are the prompt.
    """
    values = [_column(prompt, name) for name in (chosen, rejected)]
    asked = _implied(prompt, values)
    better, worse = (_completion(asked, name, value) for name, value in zip((chosen, rejected), values, strict=True))
    if better == worse:
        both = f"columns {chosen!r} and {rejected!r}"
        raise ValueError(f"prompt {prompt.id!r}: {both} hold the same completion {better!r:.60}; drop the row")
    return asked, better, worse


def labelled_text(prompt: Prompt, completion: str = "completion", label: str = "label") -> tuple[str, bool]:
    """The completion, and whether it is a good one; a ValueError names a prompt whose columns do not say it."""
    text, good = _completion(prompt, completion, _column(prompt, completion)), _column(prompt, label)
    if not isinstance(good, bool):
        raise ValueError(f"prompt {prompt.id!r}: column {label!r} must hold true or false, got {type(good).__name__} {good!r:.60}")
    return text, good


def _column(prompt: Prompt, name: str) -> JSON:
    if name in prompt.columns:
        return prompt.columns[name]
    close = difflib.get_close_matches(name, prompt.columns, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    known = ", ".join(prompt.columns) or "none"
    raise ValueError(
        f"prompt {prompt.id!r} has no column {name!r}.{hint} It has: {known}. Add it, or name another in the model's arguments"
    )


def _implied(prompt: Prompt, values: Sequence[JSON]) -> Prompt:
    """The prompt without its last turn, if it is one of two conversations that differ in that turn only."""
    if prompt.messages is None or list(prompt.messages) not in values or not all(isinstance(value, list) for value in values):
        return prompt
    better, worse = values
    if len(better) < 2 or better[:-1] != worse[:-1]:
        raise ValueError(
            f"prompt {prompt.id!r} is a whole conversation, and the two that are compared share no prompt: all their messages but the "
            "last must be the same"
        )
    return replace(prompt, messages=tuple(better[:-1]))


def _completion(prompt: Prompt, name: str, value: JSON) -> str:
    text = _last_turn(prompt, name, value) if isinstance(value, list) else value
    if not isinstance(text, str):
        raise ValueError(
            f"prompt {prompt.id!r}: column {name!r} must hold a text or a list of messages {{role, content}}, got {type(text).__name__} "
            f"{text!r:.60}"
        )
    if not text.strip():
        raise ValueError(f"prompt {prompt.id!r}: column {name!r} holds an empty completion; drop the row")
    return text


def _last_turn(prompt: Prompt, name: str, turns: list[JSON]) -> str:
    if not turns or not all(isinstance(t, dict) and isinstance(t.get("role"), str) and isinstance(t.get("content"), str) for t in turns):
        raise ValueError(f"prompt {prompt.id!r}: column {name!r} must hold messages {{role, content}}, got {turns!r:.60}")
    if turns[-1]["role"] != "assistant":
        raise ValueError(f"prompt {prompt.id!r}: column {name!r} must end with the assistant's message, got {turns[-1]['role']!r}")
    if turns[:-1] and not _same(turns[:-1], prompt):
        raise ValueError(
            f"prompt {prompt.id!r}: the conversation in column {name!r} does not begin with the prompt: its messages before the last must "
            "be those of the prompt, or give the assistant's message alone"
        )
    if fields := set(FIELDS) & {name for name, value in turns[-1].items() if value is not None}:
        raise ValueError(f"prompt {prompt.id!r}: column {name!r}: its last message has {', '.join(sorted(fields))}, and texts are compared")
    return str(turns[-1]["content"])


def _same(turns: list[Message], prompt: Prompt) -> bool:
    """Whether the turns are those of the prompt, before which the source may have put a system prompt."""
    if prompt.messages is None:
        return len(turns) == 1 and turns[0]["content"] == prompt.text
    asked, given = list(prompt.messages), [message_of(turn) for turn in turns]
    return given == asked or (asked[0]["role"] == "system" and given == asked[1:])
