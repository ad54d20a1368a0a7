"""The one way from a prompt and a completion to tokens.

Messages become a text by the chat template, which writes its special tokens itself; a prompt of plain text stays as it is, and the
tokenizer adds the special tokens. Then a completion joins in one of two ways:

- `encode_sampled`, as a policy would have sampled it: the prompt's tokens, the completion's, EOS.
- `encode_conversation`, as those read it who are shown a finished conversation: one text, cut into tokens at once.

Which messages of a longer conversation are learnt from is another question: `lightrl.policy.turns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lightrl.policy.tokenizer import Tokenizer
from lightrl.types import Message, Prompt


@dataclass(frozen=True)
class EncodedCompletion:
    """A prompt and its completion in tokens."""

    ids: list[int]
    """All of them, special ones included."""
    response: int
    """Position of the completion's first token; what closes the completion belongs to it."""
    truncated: bool = False
    """Tokens of the prompt were left out."""


def encode_prompt(tokenizer: Tokenizer, prompt: Prompt) -> list[int]:
    """Token ids of a prompt: messages through the chat template with the opening of the answer, text as it is.

    Args:
        tokenizer: of the policy that answers.
        prompt: to be answered.

    Raises:
        ValueError: the prompt has messages and the tokenizer no chat template, or it encodes to nothing.
    """
    if prompt.text is not None:
        ids = tokenizer.encode(prompt.text)
    elif not tokenizer.chat_template:
        raise no_template(
            prompt, "the tokenizer", "give the prompt source a text field instead of messages, or the tokenizer a chat_template"
        )
    else:
        text = render(tokenizer, prompt.messages or (), opened=True)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if not ids:
        raise ValueError(f"prompt {prompt.id!r} encodes to no token: the policy needs at least one to begin from")
    return list(ids)


def encode_sampled(tokenizer: Tokenizer, prompt: Prompt, completion: str, end: int | None) -> EncodedCompletion:
    """A prompt and a completion as the policy would have sampled it: no token reaches over the place where they meet.

    Args:
        tokenizer: of the policy.
        prompt: that was answered.
        completion: the answer, without EOS.
        end: EOS; None for a completion that was cut off.

    Raises:
        ValueError: the prompt cannot be encoded, see `encode_prompt`.
    """
    asked = encode_prompt(tokenizer, prompt)
    said = tokenizer(completion, add_special_tokens=False, verbose=False)["input_ids"]
    return EncodedCompletion([*asked, *said, *([] if end is None else [end])], len(asked))


def encode_conversation(tokenizer: Tokenizer, prompt: Prompt, completion: str) -> EncodedCompletion:
    """A prompt and a completion as a finished conversation, of which the completion is the assistant's last message.

    A prompt of plain text is the only message of the user. Without a chat template, prompt and completion are one text with the special
    tokens that the tokenizer adds itself.

    Args:
        tokenizer: fast.
        prompt: that was answered.
        completion: the answer, without EOS.

    Raises:
        ValueError: a conversation, and no chat template; or there is no token at all.
    """
    if tokenizer.chat_template:
        asked = list(prompt.messages or ({"role": "user", "content": prompt.text or ""},))
        text = render(tokenizer, [*asked, {"role": "assistant", "content": completion}])
        # some templates open the answer with more than they write in front of a given one
        boundary = first_difference(text, render(tokenizer, asked, opened=True))
    elif prompt.text is None:
        raise no_template(prompt, "the reward model's tokenizer", "give RewardModel a chat_template, or the prompt source a text field")
    else:
        text, boundary = prompt.text + completion, len(prompt.text)
    ids, offsets = tokenize(tokenizer, text, special=not tokenizer.chat_template)
    if not ids:
        raise ValueError(f"prompt {prompt.id!r} and its completion have no token: a reward model needs at least one")
    bos = tokenizer.bos_token_id
    if bos is not None and ids[:2] == [bos, bos]:
        ids, offsets = ids[1:], offsets[1:]
    # of an empty completion that nothing closes only the last token is left
    return EncodedCompletion(ids, next((i for i, (_, end) in enumerate(offsets) if end > boundary), len(ids) - 1))


def render(tokenizer: Tokenizer, messages: Sequence[Message], opened: bool = False) -> str:
    """Messages as one text, by the chat template.

    Args:
        tokenizer: with a chat template.
        messages: the conversation.
        opened: with the opening of an answer, as for sampling.
    """
    return tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=opened)


def tokenize(tokenizer: Tokenizer, text: str, special: bool) -> tuple[list[int], list[tuple[int, int]]]:
    """The ids of a text, and which characters each stands for, from the first to before the last.

    Args:
        tokenizer: fast.
        text: of any length.
        special: the tokenizer adds its special tokens; a template has written them itself.
    """
    encoding = tokenizer(text, add_special_tokens=special, return_offsets_mapping=True, verbose=False)
    return list(encoding["input_ids"]), list(encoding["offset_mapping"])


def first_difference(one: str, other: str) -> int:
    """The number of characters that two texts both begin with."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def must_be_fast(tokenizer: Tokenizer, remedy: str) -> None:
    """Refuse a tokenizer that cannot tell which characters a token stands for.

    Args:
        tokenizer: of which offsets are wanted.
        remedy: to be done about it.

    Raises:
        ValueError: it is not fast.
    """
    if not tokenizer.is_fast:
        raise ValueError(f"{type(tokenizer).__name__} does not tell which characters a token stands for: {remedy}")


def no_template(prompt: Prompt, whose: str, remedy: str) -> ValueError:
    """The error of a prompt with messages, which no chat template can make a text of.

    Args:
        prompt: with messages.
        whose: the tokenizer without a template.
        remedy: to be done about it.
    """
    return ValueError(f"prompt {prompt.id!r} is a conversation, but {whose} has no chat template: {remedy}")
