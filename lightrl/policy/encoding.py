"""A prompt as token ids."""

from __future__ import annotations

from typing import Any

from lightrl.types import Prompt


def encode_prompt(tokenizer: Any, prompt: Prompt) -> list[int]:
    """Token ids of a prompt: messages through the chat template with the opening of the answer, text as it is.

    Args:
        tokenizer: a `transformers.PreTrainedTokenizerBase`.
        prompt: to be answered.

    Raises:
        ValueError: the prompt has messages and the tokenizer no chat template, or it encodes to nothing.
    """
    if prompt.text is not None:
        ids = tokenizer.encode(prompt.text)
    elif tokenizer.chat_template is None:
        raise ValueError(
            f"prompt {prompt.id!r} is a conversation, but the tokenizer has no chat template: give the prompt source a text field "
            "instead of messages, or the tokenizer a chat_template"
        )
    else:
        ids = tokenizer.apply_chat_template(list(prompt.messages or ()), add_generation_prompt=True, return_dict=False)
    if not ids:
        raise ValueError(f"prompt {prompt.id!r} encodes to no token: the policy needs at least one to begin from")
    return list(ids)
