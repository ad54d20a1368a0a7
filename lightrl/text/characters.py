"""A tokenizer whose tokens are characters, for policies that need no download."""

from __future__ import annotations

from lightrl.text.tokenizer import Tokenizer

ALPHABET = "0123456789+-*=>,.:()? "
"""22 characters; with padding and EOS a vocabulary of 24."""


def character_tokenizer(alphabet: str, max_positions: int) -> Tokenizer:
    """A fast Hugging Face tokenizer with one token per character, id 0 for padding and 1 for EOS.

    Args:
        alphabet: the characters; a character outside it is an error when text is encoded.
        max_positions: longest row in tokens.

    Raises:
        ValueError: a character stands twice.
    """
    from tokenizers import Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as CharacterTokenizer
    from transformers import PreTrainedTokenizerFast

    if len(set(alphabet)) != len(alphabet):
        raise ValueError(f"a character stands twice in the alphabet {alphabet!r}")
    vocabulary = {"<pad>": 0, "<eos>": 1} | {character: 2 + i for i, character in enumerate(alphabet)}
    inner = CharacterTokenizer(models.WordLevel(vocabulary))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    inner.decoder = decoders.Fuse()
    made: Tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<eos>",
        model_max_length=max_positions,
        clean_up_tokenization_spaces=False,
    )
    return made
