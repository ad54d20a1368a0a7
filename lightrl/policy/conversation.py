"""From a prompt and a completion to the tokens that a reward model reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightrl.types import Prompt


@dataclass(frozen=True)
class ConversationTokens:
    """One conversation in the reward model's own tokens."""

    ids: list[int]
    """All of them, special ones included."""
    response: int
    """Position of the response's first token; the closing of the turn belongs to the response."""
    truncated: bool
    """Tokens of the prompt were left out."""


class TooLongConversation(ValueError):  # noqa: N818 - what it is reads better without a suffix
    """A response alone has more tokens than the model takes."""


class ConversationTokenizer:
    """Renders prompt and completion as a conversation, by the template that the reward model was trained with.

    Messages are the conversation, a prompt of plain text is its only user turn, and the completion is the assistant's answer. A
    tokenizer without a chat template gets text and completion as one text, with the special tokens that it adds itself.
    """

    def __init__(self, tokenizer: Any, max_length: int | None) -> None:
        """
        Args:
            tokenizer: a fast tokenizer of transformers.
            max_length: tokens at most, of which the prompt gives way first, from its beginning; None: no limit.

        Raises:
            ValueError: a tokenizer that cannot tell which characters a token stands for.
        """
        if not tokenizer.is_fast:
            raise ValueError(
                f"{type(tokenizer).__name__} does not tell which characters a token stands for: save a fast tokenizer (tokenizer.json) "
                "with the reward model"
            )
        self._tokenizer, self._max_length = tokenizer, max_length

    def encode(self, prompt: Prompt, completion: str) -> ConversationTokens:
        """The tokens of one row.

        Raises:
            TooLongConversation: the response leaves no room even without its prompt.
            ValueError: a conversation, and no chat template; or no token at all.
        """
        text, boundary = self._text(prompt, completion)
        templated = bool(self._tokenizer.chat_template)
        # a template writes its special tokens itself
        encoded = self._tokenizer(text, add_special_tokens=not templated, return_offsets_mapping=True, truncation=False, verbose=False)
        ids, ends = list(encoded["input_ids"]), [end for _, end in encoded["offset_mapping"]]
        if not ids:
            raise ValueError(f"prompt {prompt.id!r} and its completion have no token: a reward model needs at least one")
        bos = self._tokenizer.bos_token_id
        if bos is not None and ids[:2] == [bos, bos]:
            ids, ends = ids[1:], ends[1:]
        # of an empty response without a closing nothing is left but the last token
        response = next((i for i, end in enumerate(ends) if end > boundary), len(ids) - 1)
        return self._cut(prompt, ids, response)

    def _text(self, prompt: Prompt, completion: str) -> tuple[str, int]:
        """What is read, and the number of its characters before the response."""
        if self._tokenizer.chat_template:
            asked = list(prompt.messages or ({"role": "user", "content": prompt.text or ""},))
            whole = self._render([*asked, {"role": "assistant", "content": completion}])
            # some templates open the answer with more than they write in front of a given one
            return whole, _shared(whole, self._render(asked, add_generation_prompt=True))
        if prompt.text is None:
            raise ValueError(
                f"prompt {prompt.id!r} is a conversation, but the reward model's tokenizer has no chat template: give RewardModel a "
                "chat_template, or the prompt source a text field"
            )
        return prompt.text + completion, len(prompt.text)

    def _render(self, messages: list[dict[str, str]], **options: bool) -> str:
        return str(self._tokenizer.apply_chat_template(messages, tokenize=False, **options))

    def _cut(self, prompt: Prompt, ids: list[int], response: int) -> ConversationTokens:
        excess = 0 if self._max_length is None else len(ids) - self._max_length
        if excess <= 0:
            return ConversationTokens(ids, response, truncated=False)
        # models that begin every row with BOS are lost without it
        head = int(response > 0 and ids[0] == self._tokenizer.bos_token_id)
        if excess > response - head:
            raise TooLongConversation(
                f"the answer to prompt {prompt.id!r} has {len(ids) - response + head} tokens of the reward model, which takes "
                f"{self._max_length}: lower model.engine.max_new_tokens, or raise max_length if the model allows it"
            )
        return ConversationTokens(ids[:head] + ids[head + excess :], response - excess, truncated=True)


def _shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
