"""The token that fills up the rows of an exported reward model."""

from __future__ import annotations

from lightrl.policy.encoding import render
from lightrl.policy.tokenizer import Tokenizer

ADDED = "<|pad|>"
"""The token that is added where no other will do, if the embedding has a row to spare."""


def give_padding(tokenizer: Tokenizer, vocabulary: int) -> int | None:
    """Set a padding token that no row ends with, and give its id.

    The classifiers of transformers score at the last token that is not the padding token: where EOS pads and also closes a turn, that
    is the token before it. None and no padding token at all if there is no other: transformers then scores one row at a time, rightly.

    Args:
        tokenizer: with a chat template; is changed.
        vocabulary: rows of the embedding.
    """
    closing = _closing(tokenizer)
    special = [str(token) for _, token in sorted(tokenizer.added_tokens_decoder.items()) if "pad" in str(token).lower()]
    for name in (tokenizer.pad_token, *special, tokenizer.unk_token):
        if name is not None and tokenizer.convert_tokens_to_ids(name) != closing:
            tokenizer.pad_token = name
            return tokenizer.pad_token_id
    if len(tokenizer) < vocabulary:
        tokenizer.add_special_tokens({"pad_token": ADDED})
        return tokenizer.pad_token_id
    tokenizer.pad_token = None
    return None


def _closing(tokenizer: Tokenizer) -> int | None:
    """The token with which a conversation ends; None if the template closes with nothing."""
    turns = [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]
    ids = tokenizer(render(tokenizer, turns), add_special_tokens=False)["input_ids"]
    return ids[-1] if ids else None
