"""The one way from a prompt and a completion to tokens.

Messages become a text by the chat template, which writes its special tokens itself; a prompt of plain text stays as it is, and the
tokenizer adds the special tokens. Then a completion joins in one of two ways:

- `encode_sampled`, as a policy would have sampled it: the prompt's tokens, the completion's, EOS.
- `encode_conversation`, as those read it who are shown a finished conversation: one text, cut into tokens at once.

Control tokens that a prompt or a completion spells are plain text, by `lightrl.text.plain_text`, unless the prompt is rendered.
Which messages of a longer conversation are learnt from is another question: `lightrl.text.turns`.
"""

from __future__ import annotations

import copy
import json
import logging
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache

from lightrl.parts.environment import Said, own_opening
from lightrl.prompt import FIELDS
from lightrl.text.plain_text import PlainText, Written, plain_text
from lightrl.text.tokenizer import Tokenizer
from lightrl.types import JSON, Message, Prompt

LABELS = {"name", "tool_call_id"}
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EncodedTurn:
    """A text of others in tokens."""

    ids: list[int]
    """All of them, special ones included."""
    special: int
    """How many control tokens the texts spelled, which are plain text in `ids`; those that the chat template wrote are not counted."""


@dataclass(frozen=True)
class EncodedCompletion:
    """A prompt and its completion in tokens."""

    ids: list[int]
    """All of them, special ones included."""
    response: int
    """Position of the completion's first token; what closes the completion belongs to it."""
    truncated: bool = False
    """Tokens of the prompt were left out."""
    special: int = 0
    """How many control tokens prompt and completion spelled, which are plain text in `ids`."""


def encode_prompt(tokenizer: Tokenizer, prompt: Prompt, ends: Collection[int] = ()) -> EncodedTurn:
    """A prompt in tokens: messages through the chat template with the opening of the answer, text as it is.

    Raises:
        ValueError: the prompt has messages and the tokenizer no chat template, or it encodes to nothing.
    """
    return encode_opening(tokenizer, plain_text(tokenizer, ends), own_opening(prompt), f"prompt {prompt.id!r}", rendered=prompt.rendered)


def encode_opening(
    tokenizer: Tokenizer, plain: PlainText, said: Said, whose: str, tools: Sequence[JSON] = (), rendered: bool = False
) -> EncodedTurn:
    """A text or messages that the policy is to answer, in tokens.

    Args:
        whose: names it in errors.
        rendered: a text is what a chat template wrote.

    Raises:
        ValueError: messages without a chat template, or no token.
    """
    if rendered and isinstance(said, str):
        ids, special = plain.read(Written(said))[0], 0
    elif isinstance(said, str):
        ids, special = plain.read(plain.said(said), add=True)[0], plain.control.count(said)
    elif not tokenizer.chat_template:
        remedy = "give the prompt source chat: false, which takes its field as plain text, or the policy a chat_template"
        raise no_template(whose, "the tokenizer", remedy)
    else:
        check_fields(tokenizer, said)
        masked = plain.control.mask([list(said), list(tools)])
        messages, shown = masked.value
        text = render(tokenizer, messages, opened=True, tools=shown)
        ids, special = plain.read(plain.written(text, masked.hidden))[0], masked.special
    if not ids:
        raise ValueError(f"{whose} encodes to no token: the policy needs at least one to begin from")
    return EncodedTurn(ids, special)


def encode_sampled(tokenizer: Tokenizer, prompt: Prompt, completion: str, end: int | None, ends: Collection[int] = ()) -> EncodedCompletion:
    """A prompt and a completion as the policy would have sampled it: no token reaches over the place where they meet.

    Args:
        completion: the answer, without EOS.
        end: EOS; None for a completion that was cut off.

    Raises:
        ValueError: the prompt cannot be encoded, see `encode_prompt`.
    """
    plain, asked = plain_text(tokenizer, ends), encode_prompt(tokenizer, prompt, ends)
    said = plain.read(plain.said(completion))[0]
    ids = [*asked.ids, *said, *([] if end is None else [end])]
    return EncodedCompletion(ids, len(asked.ids), special=asked.special + plain.control.count(completion))


def closing_id(tokenizer: Tokenizer, ends: Collection[int]) -> int:
    """The EOS that ends a given completion: the tokenizer's, or the least of those that end one."""
    own = tokenizer.eos_token_id
    return min(ends) if own is None else own


def encode_conversation(tokenizer: Tokenizer, prompt: Prompt, completion: str) -> EncodedCompletion:
    """A prompt and a completion as a finished conversation, of which the completion is the assistant's last message.

    A prompt of plain text is the only message of the user. Without a chat template, prompt and completion are one text with the special
    tokens that the tokenizer adds itself.

    Args:
        completion: the answer, without EOS.

    Raises:
        ValueError: a conversation, and no chat template; a rendered prompt; or there is no token at all.
    """
    plain = plain_text(tokenizer)
    if prompt.rendered:
        raise ValueError(
            f"prompt {prompt.id!r} is rendered for the policy, and a reward model reads conversations that it renders itself: give the "
            "prompt source a column of messages"
        )
    if tokenizer.chat_template:
        asked = list(prompt.messages or ({"role": "user", "content": prompt.text or ""},))
        check_fields(tokenizer, asked)
        masked = plain.control.mask([*asked, {"role": "assistant", "content": completion}])
        text, special = render(tokenizer, masked.value), masked.special
        # some templates open the answer with more than they write in front of a given one
        boundary = first_difference(text, render(tokenizer, masked.value[:-1], opened=True))
        ids, offsets = plain.read(plain.written(text, masked.hidden))
    elif prompt.text is None:
        remedy = "give RewardModel a chat_template, or the prompt source chat: false"
        raise no_template(f"prompt {prompt.id!r}", "the reward model's tokenizer", remedy)
    else:
        text, boundary = prompt.text + completion, len(prompt.text)
        special = plain.control.count(text)
        ids, offsets = plain.read(plain.said(text), add=True)
    if not ids:
        raise ValueError(f"prompt {prompt.id!r} and its completion have no token: a reward model needs at least one")
    # of an empty completion that nothing closes only the last token is left
    response = next((i for i, (_, end) in enumerate(offsets) if end > boundary), len(ids) - 1)
    return EncodedCompletion(ids, response, special=special)


def render(tokenizer: Tokenizer, messages: Sequence[Message], opened: bool = False, tools: Sequence[JSON] = ()) -> str:
    """Messages as one text, by the chat template. `opened`: with the opening of an answer, as for sampling.

    Arguments of calls are objects; a template that joins them to a text, as DeepSeek's does, has them as JSON.
    """

    def written(turns: list[Message]) -> str:
        return tokenizer.apply_chat_template(turns, tools=list(tools) or None, tokenize=False, add_generation_prompt=opened)

    given = list(messages)
    arguments = [found for message in given for call in _calls(message) if isinstance(found := call.get("arguments"), dict)]
    if not arguments:
        return written(given)
    try:
        text = written(given)
    except TypeError:
        return written(_with_json(given))
    # `{{ arguments }}` writes what Python prints, with quotes of its own
    said = "".join(str(value) for message in given for field, value in message.items() if field != "tool_calls")
    printed = {str(found) for found in arguments if str(found) != json.dumps(found, ensure_ascii=False)}
    return written(_with_json(given)) if any(text.count(found) > said.count(found) for found in printed) else text


def _calls(message: Message) -> list[dict[str, JSON]]:
    """The calls of a message, each as what has its name and arguments."""
    calls = message.get("tool_calls")
    found = [call.get("function", call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return [call for call in found if isinstance(call, dict)]


def _with_json(messages: Sequence[Message]) -> list[Message]:
    """Copies of messages in which arguments that are objects are texts of JSON."""
    copies = copy.deepcopy(list(messages))
    for call in (call for message in copies for call in _calls(message)):
        if isinstance(call.get("arguments"), dict):
            call["arguments"] = json.dumps(call["arguments"], ensure_ascii=False)
    return copies


def check_fields(tokenizer: Tokenizer, messages: Sequence[Message]) -> None:
    """Refuse what a chat template would leave out of messages in silence; what only names something is warned of.

    Args:
        tokenizer: with a chat template.
        messages: of data.

    Raises:
        ValueError: a message has calls or thoughts, and the template never reads them.
    """
    template = str(tokenizer.chat_template)
    lost = {field for message in messages for field in FIELDS if field in message and not re.search(rf"\b{field}\b", template)}
    if refused := sorted(lost - LABELS):
        raise ValueError(
            f"a message has {', '.join(refused)}, which the chat template never writes, so the policy would not see it: give the policy a "
            "chat_template that does, or write it into the content"
        )
    for field in sorted(lost):
        _warn_once(field)


@cache
def _warn_once(field: str) -> None:
    log.warning("messages of the data have %r, which the chat template never writes: the policy does not see it", field)


def first_difference(one: str, other: str) -> int:
    """The number of characters that two texts both begin with."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def must_be_fast(tokenizer: Tokenizer, remedy: str) -> None:
    """Raise ValueError for a tokenizer that cannot tell which characters a token stands for."""
    if not tokenizer.is_fast:
        raise ValueError(f"{type(tokenizer).__name__} does not tell which characters a token stands for: {remedy}")


def no_template(what: str, whose: str, remedy: str) -> ValueError:
    """The error of messages that no chat template can make a text of. `what`: names the messages, such as a prompt with its id."""
    return ValueError(f"{what} is a conversation, but {whose} has no chat template: {remedy}")


class TooLongConversation(ValueError):  # noqa: N818 - what it is reads better without a suffix
    """A response alone has more tokens than the model takes."""


class ConversationTokenizer:
    """Renders prompt and completion as a conversation, by the template that the reward model was trained with.

    Messages are the conversation, a prompt of plain text is its only user turn, and the completion is the assistant's answer. A
    tokenizer without a chat template gets text and completion as one text, with the special tokens that it adds itself.
    """

    def __init__(self, tokenizer: Tokenizer, max_length: int | None) -> None:
        """
        Args:
            tokenizer: a fast tokenizer of transformers.
            max_length: tokens at most, of which the prompt gives way first, from its beginning; None: no limit.

        Raises:
            ValueError: a tokenizer that cannot tell which characters a token stands for.
        """
        must_be_fast(tokenizer, "save a fast tokenizer (tokenizer.json) with the reward model")
        self._tokenizer, self._max_length = tokenizer, max_length

    def encode(self, prompt: Prompt, completion: str) -> EncodedCompletion:
        """The tokens of one row.

        Raises:
            TooLongConversation: the response leaves no room even without its prompt.
            ValueError: a conversation, and no chat template; or no token at all.
        """
        whole = encode_conversation(self._tokenizer, prompt, completion)
        excess = 0 if self._max_length is None else len(whole.ids) - self._max_length
        if excess <= 0:
            return whole
        # models that begin every row with BOS are lost without it
        head = int(whole.response > 0 and whole.ids[0] == self._tokenizer.bos_token_id)
        if excess > whole.response - head:
            raise TooLongConversation(
                f"the answer to prompt {prompt.id!r} has {len(whole.ids) - whole.response + head} tokens of the reward model, which takes "
                f"{self._max_length}: lower model.engine.max_new_tokens, or raise max_length if the model allows it"
            )
        ids = whole.ids[:head] + whole.ids[head + excess :]
        return replace(whole, ids=ids, response=whole.response - excess, truncated=True)
