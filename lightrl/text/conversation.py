"""Conversations as a reward model reads them: no longer than it takes, and never without a token of the answer."""

from __future__ import annotations

from dataclasses import replace

from lightrl.text.encoding import EncodedCompletion, encode_conversation, must_be_fast
from lightrl.text.tokenizer import Tokenizer
from lightrl.types import Prompt


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
