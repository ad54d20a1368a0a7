"""Rows of several turns in tokens: what the policy sampled stays as it is, and what others say is added behind it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from lightrl.parts.base import FaultyPartError
from lightrl.parts.environment import Said, Thoughts, tool_names
from lightrl.text.chat_text import ChatText, RefusedConversation
from lightrl.text.encoding import EncodedTurn, encode_opening
from lightrl.text.plain_text import plain_text
from lightrl.text.tokenizer import Tokenizer
from lightrl.types import JSON, Message

REMEMBERED = 4096
"""Replies whose tokens are kept."""


class TurnEncoder:
    """Makes tokens of what others say to a policy; rows only grow by them.

    The tokens are those of the chat template's own rendering. The policy's own turns are never decoded and encoded again, and a template
    that would change them has no part in them.
    """

    def __init__(self, tokenizer: Tokenizer, ends: frozenset[int], tools: Sequence[JSON] = ()) -> None:
        self._tokenizer, self._ends, self._tools = tokenizer, ends, list(tools)
        self._plain = plain_text(tokenizer, ends)
        self._said: dict[str, EncodedTurn] = {}
        self._chat = ChatText(tokenizer, self._plain.control.mask(self._tools).value)

    def opening(self, said: Said, rendered: bool = False) -> EncodedTurn:
        """A text as it is, with the special tokens that the tokenizer adds, or messages through the chat template.

        Args:
            rendered: a text is what a chat template wrote.

        Raises:
            ValueError: messages without a chat template, or no token.
        """
        return encode_opening(self._tokenizer, self._plain, said, "the opening", self._tools, rendered)

    def continuation(self, messages: Sequence[Message], last: int, said: Said) -> EncodedTurn:
        """The tokens between a turn of the policy and its next one.

        What closes the turn is among them, unless the policy sampled that itself.

        Args:
            messages: the conversation so far, its last message the policy's; none if it began with a plain text.
            last: the last id that the policy sampled.
            said: the reply. A text is a message of the user, or goes on as it is where the conversation began with a plain text.

        Raises:
            ValueError: the reply has messages and the opening had none, or the chat template cannot be continued.
        """
        if not messages:
            return self._text(said)
        reply = [{"role": "user", "content": said}] if isinstance(said, str) else list(said)
        if not reply or messages[-1]["role"] != "assistant":
            roles = ", ".join(message["role"] for message in messages)
            raise ValueError(
                f"a reply of {len(reply)} messages to the messages {roles}: the last is the assistant's, and one follows at least"
            )
        masked = self._plain.control.mask(reply)
        text = self._chat.continuation(messages, masked.value)
        space, control = self._plain.control.first(text)
        closing = self._tokenizer.convert_tokens_to_ids(control) if control and not space.strip() else None
        sampled = closing is not None and (closing == last or {closing, last} <= self._ends)
        ids, _ = self._plain.read(self._plain.written(text[len(space) :] if sampled else text, masked.hidden), middle=True)
        return EncodedTurn(ids[sampled:], masked.special)

    def check_tools(self) -> None:
        """Refuse, by a FaultyPartError, a chat template that shows none of the tools."""
        if self._tools and self._tokenizer.chat_template and not self._chat.shows_tools():
            raise FaultyPartError(
                f"model.environment: the policy's chat template shows none of its tools ({', '.join(tool_names(self._tools))}).\n"
                "Type --model.environment.describe true, which puts them into the prompt; or --model.policy.chat_template FILE, one that "
                "writes `tools`"
            )

    def check(self, thoughts: Thoughts = "keep") -> list[str]:
        """Try the chat template before a run in which conversations have several turns; gives sentences to be shown.

        Args:
            thoughts: whether turns read what earlier ones thought.

        Raises:
            ValueError: it cannot be continued, or, a FaultyPartError, shows none of the tools.
        """
        if not self._tokenizer.chat_template:
            return []
        self.check_tools()
        talk, reply, chat, sentences = _messages("user", "assistant", "user", "assistant"), _messages("user"), self._chat, []
        for turns in (2, 4):
            for old, new in chat.differences(talk[:turns], reply):
                sentences.append(
                    f"The chat template opens an answer with {old!r} and writes {new!r} in front of it once it is answered. {KEEPS}"
                )
        for said in (REASONED, SPACED):
            kept = chat.kept(said)
            if kept is None:
                sentences.append(f"The chat template changes more than the turn itself where an earlier turn was {said!r}. {KEEPS}")
            elif kept != said and not (said == REASONED and thoughts == "strip"):
                further = STRIP if said == REASONED else ""
                sentences.append(f"The chat template writes {kept!r} where an earlier turn was {said!r}. {KEEPS}{further}")
        sentences += _refused(chat, "a system message", ("system", "user", "assistant"), "user")
        if self._tools:
            sentences += _refused(chat, "a tool's result", ("user", "assistant"), "tool")
        return list(dict.fromkeys(sentences))

    def opens_turn(self, ids: Sequence[int]) -> bool:
        """Whether a sampled turn contains the text with which the chat template opens a message of somebody else.

        By control tokens or by letters, with any space between its words.
        """
        if not self._openings:
            return False
        text = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        return any(opening in (text if opening[0].isspace() else "".join(text.split())) for opening in self._openings)

    @cached_property
    def _openings(self) -> list[str]:
        if not self._tokenizer.chat_template:
            return []
        between = [self._chat.opening(role) for role in ("user", "system", "tool")]
        found = {self._role(text) for text in between if text is not None}
        return sorted(found - {""})

    def _role(self, between: str) -> str:
        """Without what closes the turn before; a word of letters counts only behind the space in front of it."""
        space, control = self._plain.control.first(between)
        ends = control and not space.strip() and self._tokenizer.convert_tokens_to_ids(control) in self._ends
        text = (between[len(space) + len(control) :] if ends else between).rstrip()
        return text if text.strip()[:1].isalpha() and text[0].isspace() else "".join(text.split())

    def _text(self, said: Said) -> EncodedTurn:
        if not isinstance(said, str):
            roles = ", ".join(message["role"] for message in said)
            raise ValueError(
                f"the environment replied with messages ({roles}) to an episode that began with a plain text: let reply() give a text, or "
                "begin() messages"
            )
        if said not in self._said:
            # games say the same few sentences thousands of times
            if len(self._said) >= REMEMBERED:
                self._said.clear()
            self._said[said] = EncodedTurn(self._plain.read(self._plain.said(said), middle=True)[0], self._plain.control.count(said))
        return self._said[said]


REASONED = "<think>\nwhy\n</think>\n\nfour"
"""A turn with its reasoning, as most models write it."""
SPACED = " four \n"
"""A turn with space around it."""
KEEPS = "Rows keep what the policy said."
STRIP = " To have later turns read no thoughts either: --model.environment.thoughts strip"


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
