"""A tokenizer whose tokens are characters, for policies that need no download."""

from __future__ import annotations

from typing import Any

ALPHABET = "0123456789+-*=>,.:()? "
"""22 characters; with padding and EOS a vocabulary of 24."""


def character_tokenizer(alphabet: str, max_positions: int) -> Any:
    """A fast Hugging Face tokenizer with one token per character, id 0 for padding and 1 for EOS.

    Args:
        alphabet: the characters; a character outside it is an error when text is encoded.
        max_positions: longest row in tokens.

    Raises:
        ValueError: a character stands twice.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    if len(set(alphabet)) != len(alphabet):
        raise ValueError(f"a character stands twice in the alphabet {alphabet!r}")
    vocabulary = {"<pad>": 0, "<eos>": 1} | {character: 2 + i for i, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        model_max_length=max_positions,
        clean_up_tokenization_spaces=False,
    )
