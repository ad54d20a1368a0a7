"""Probe conversations by which a chat template shows whether it can be continued, and how it changes earlier turns."""

from __future__ import annotations

from collections.abc import Sequence

from lightrl.policy.chat_text import ChatText, RefusedConversation
from lightrl.types import Message

REASONED = "<think>\nwhy\n</think>\n\nfour"
"""A turn with its reasoning, as most models write it."""
SPACED = " four \n"
"""A turn with space around it."""
KEEPS = "Rows keep what the policy said."


def check_template(chat: ChatText, tools: bool) -> list[str]:
    """Sentences about a chat template, to be shown at the start of a run.

    Args:
        chat: of the template.
        tools: tools are shown to the policy, so their results may follow as messages of the role `tool`.

    Raises:
        ValueError: a conversation between user and policy cannot be continued.
    """
    talk, reply = _messages("user", "assistant", "user", "assistant"), _messages("user")
    sentences = []
    for turns in (2, 4):
        for old, new in chat.differences(talk[:turns], reply):
            sentences.append(
                f"The chat template opens an answer with {old!r} and writes {new!r} in front of it once it is answered. {KEEPS}"
            )
    for said in (REASONED, SPACED):
        kept = chat.kept(said)
        if kept is None:
            sentences.append(f"The chat template changes more than the turn itself where an earlier turn was {said!r}. {KEEPS}")
        elif kept != said:
            sentences.append(f"The chat template writes {kept!r} where an earlier turn was {said!r}. {KEEPS}")
    sentences += _refused(chat, "a system message", ("system", "user", "assistant"), "user")
    if tools:
        sentences += _refused(chat, "a tool's result", ("user", "assistant"), "tool")
    return list(dict.fromkeys(sentences))


def _refused(chat: ChatText, what: str, talk: Sequence[str], reply: str) -> list[str]:
    """A sentence if conversations of these roles cannot be continued, which ends the run only once there is one."""
    try:
        chat.differences(_messages(*talk), _messages(reply))
    except RefusedConversation as error:
        # many templates have no system messages, and say so when they get one
        return [f"Conversations with {what} will end the run: {error}."] if reply == "tool" else []
    except ValueError as error:
        return [f"Conversations with {what} will end the run: {error}."]
    return []


def _messages(*roles: str) -> list[Message]:
    return [{"role": role, "content": ""} for role in roles]
