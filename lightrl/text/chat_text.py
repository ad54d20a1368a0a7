"""The text that a chat template writes after a turn of the policy.

The template never sees what the policy said, so it cannot change it: one private character stands for each turn. The text behind the last
one is the continuation. Whether rows may grow by it is tried with the same conversation in which a private character of its own stands for
each message: once through the reply, and once as it was when the policy began its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from lightrl.text.control_tokens import unused
from lightrl.text.encoding import first_difference, render
from lightrl.text.tokenizer import Tokenizer
from lightrl.types import JSON, Message

MARKS = range(0x100000, 0x10FFFE)
"""Private characters that stand for messages: others than those that stand for control tokens."""


class RefusedConversation(ValueError):  # noqa: N818 - what it is reads better without a suffix
    """The chat template itself raises an error."""


class ChatText:
    """Renders conversations of which the policy has written some messages, those of the role `assistant`."""

    def __init__(self, tokenizer: Tokenizer, tools: Sequence[JSON]) -> None:
        self._tokenizer, self._tools = tokenizer, list(tools)
        self._tried: set[tuple[tuple[str, ...], int]] = set()

    def continuation(self, messages: Sequence[Message], reply: Sequence[Message]) -> str:
        """The text between the last message and what the policy says next.

        Args:
            messages: the conversation, whose last message is the policy's.
            reply: what others answer, at least one message.

        Raises:
            ValueError: the text cannot be told.
        """
        roles = tuple(message["role"] for message in (*messages, *reply))
        if (roles, len(reply)) not in self._tried:
            self.differences(messages, reply)
            self._tried.add((roles, len(reply)))
        mark = next(unused([*messages, *reply, *self._tools], MARKS))
        hidden = [{**message, "content": mark} if message["role"] == "assistant" else message for message in messages]
        pieces = self._render([*hidden, *reply], opened=True).split(mark)
        turns = sum(message["role"] == "assistant" for message in messages)
        if len(pieces) != turns + 1:
            raise _cannot(f"it writes {len(pieces) - 1} turns of a conversation with {turns} turns of the policy")
        return pieces[-1]

    def differences(self, messages: Sequence[Message], reply: Sequence[Message]) -> list[tuple[str, str]]:
        """Try a continuation: every opening of an answer that the template later writes in another way, as it was and as it is then.

        Args:
            messages: as for `continuation`; only their roles count.

        Raises:
            ValueError: what others wrote is changed by the reply, or is not written in order.
        """
        whole, turns = [*messages, *reply], len(messages) - 1
        marks = list(islice(unused(self._tools, MARKS), len(whole)))
        shown = [{**message, "content": mark} for message, mark in zip(whole, marks, strict=True)]
        then = self._render(shown[:turns], opened=True)
        later, closed = self._render(shown, opened=True), self._render(shown[:turns])
        _must_write(later, marks[turns:], [message["role"] for message in whole[turns:]])
        mine = [mark for mark, message in zip(marks, whole, strict=True) if message["role"] == "assistant"]
        others = set(marks) - set(mine)
        before, after = _split(then, mine), _split(later, mine)
        if len(after) != len(mine) + 1 or len(before) != len([mark for mark in mine if mark in marks[:turns]]) + 1:
            raise _cannot("it does not write each turn of the policy once, in their order")
        found = []
        for number, (old, new) in enumerate(zip(before, after, strict=False)):
            fixed = max((i + 1 for i, character in enumerate(old) if character in others), default=0)
            if number == len(before) - 1:
                fixed = max(fixed, first_difference(old, _split(closed, mine)[-1]))
            if old[:fixed] != new[:fixed]:
                at = first_difference(old, new)
                raise _cannot(
                    f"in front of turn {number + 1} of the policy it first writes {_readable(old[at : at + 40], marks)!r}, and "
                    f"{_readable(new[at : at + 40], marks)!r} once the conversation has gone on"
                )
            if old != new:
                found.append((old[fixed:], new[fixed:]))
        return found

    def kept(self, turn: str) -> str | None:
        """A turn of the policy as the template writes it in a later rendering; None if it cannot be found there."""
        front, back, mark = islice(unused([turn, *self._tools], MARKS), 3)
        talk = [{"role": "user", "content": front}, {"role": "assistant", "content": turn}, {"role": "user", "content": back}]
        with_mark = self._render([talk[0], {"role": "assistant", "content": mark}, talk[2]], opened=True)
        before, found, after = with_mark.partition(mark)
        text = self._render(talk, opened=True)
        whole = found and text.startswith(before) and text.endswith(after) and len(text) >= len(before) + len(after)
        return text[len(before) : len(text) - len(after)] if whole else None

    def opening(self, role: str) -> str | None:
        """The text between a turn of the policy and a message of somebody else; None if the template has no such message."""
        asked, said, told = islice(unused(self._tools, MARKS), 3)
        talk = [{"role": "user", "content": asked}, {"role": "assistant", "content": said}, {"role": role, "content": told}]
        try:
            text = self._render(talk)
        except RefusedConversation:
            return None
        between = text.partition(said)[2].partition(told)
        return between[0] if between[1] else None

    def shows_tools(self) -> bool:
        """Whether the template writes something else where there are tools."""
        asked: list[Message] = [{"role": "user", "content": ""}]
        return self._render(asked) != render(self._tokenizer, asked)

    def _render(self, messages: Sequence[Message], opened: bool = False) -> str:
        from jinja2 import TemplateError

        try:
            return render(self._tokenizer, messages, opened, self._tools)
        except TemplateError as error:
            roles = ", ".join(message["role"] for message in messages)
            raise RefusedConversation(f"the chat template refuses a conversation of the messages {roles}: {error}") from error


def _split(text: str, marks: Sequence[str]) -> list[str]:
    """The pieces of a text between marks."""
    pieces = [text]
    for mark in marks:
        pieces[-1:] = pieces[-1].split(mark)
    return pieces


def _must_write(text: str, marks: Sequence[str], roles: Sequence[str]) -> None:
    """Refuse a rendering without one of the last messages, or with one elsewhere."""
    for mark, role in zip(marks, roles, strict=True):
        if mark not in text:
            raise _cannot(f"it does not write a message of the role {role!r} there")
    if [character for character in text[text.index(marks[0]) :] if character in marks] != list(marks):
        raise _cannot(f"it does not write the messages {', '.join(roles)} once, in this order")


def _cannot(why: str) -> ValueError:
    return ValueError(
        f"the chat template cannot be continued, so nothing says which tokens follow a turn of the policy: {why}. Give the policy a "
        "chat_template that only adds text as the conversation grows, or let the environment speak in plain text (its own text as opening)"
    )


def _readable(text: str, marks: Sequence[str]) -> str:
    """A text in which each mark is the number of its message."""
    return "".join(f"[message {marks.index(character) + 1}]" if character in marks else character for character in text)
