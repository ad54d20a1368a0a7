"""A question that wants one judgement: what its reply must look like, and what is said if it does not."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lightrl_judge.chat import Chat
from lightrl_judge.failures import UnreadableError
from lightrl_judge.reply import judgement

T = TypeVar("T")


@dataclass(frozen=True)
class Form(Generic[T]):
    """A JSON object with one field that matters."""

    name: str
    """Of the field."""
    wanted: str
    """The content that the judge is told to put there."""
    schema: dict[str, Any]
    """JSON schema of the field."""
    read: Callable[[Any], T]
    """From the field's JSON value to the judgement; raises ValueError for what is none."""

    @property
    def response_format(self) -> dict[str, Any]:
        """The request that makes a server force replies into this form: first the reason, then the field."""
        schema = {
            "type": "object",
            "properties": {"reason": {"type": "string"}, self.name: self.schema},
            "required": ["reason", self.name],
            "additionalProperties": False,
        }
        return {"type": "json_schema", "json_schema": {"name": self.name, "strict": True, "schema": schema}}

    def complaint(self, error: UnreadableError) -> str:
        """The message to a judge whose reply could not be read."""
        return f'That reply cannot be read: {error}. Reply with nothing but the JSON object {{"{self.name}": {self.wanted}}}.'

    def parse(self, reply: str) -> T:
        """The judgement in a reply; see `judgement`."""
        return judgement(reply, self.name, self.read)

    def render(self, value: Any) -> str:
        """The shortest reply with this value."""
        return json.dumps({self.name: value})


async def ask(chat: Chat, system: str, user: str, form: Form[T], ask_again: int = 0, structured: bool = False) -> T:
    """One judgement.

    Args:
        chat: of the judge.
        system: the system prompt; empty: none.
        user: the question.
        form: of the reply.
        ask_again: how often an unreadable reply is sent back with a complaint.
        structured: have the server force the form.

    Raises:
        UnreadableError: no reply could be read; the message is about the last.
        JudgeError: other reasons for which there is no judgement.
        UnavailableError: no answer this time.
    """
    messages = [*([{"role": "system", "content": system}] if system else []), {"role": "user", "content": user}]
    while True:
        reply = await chat.reply(messages, form.response_format if structured else None)
        try:
            return form.parse(reply)
        except UnreadableError as error:
            if ask_again == 0:
                raise
            ask_again -= 1
            messages = [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": form.complaint(error)}]
