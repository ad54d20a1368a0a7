"""Policies with random weights as Hugging Face folders: one whose tokens are learnt from texts, and one whose tokens are words."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HIDDEN, LAYERS, HEADS = 64, 2, 4
POSITIONS = 1024
MOST_TOKENS, LEAST_SEEN = 2000, 50
"""Limits of the vocabulary; sentences that are seen often become one token."""


def write_policy(folder: Path, texts: Sequence[str], apart: str, seed: int) -> None:
    """Write tokenizer and weights.

    Args:
        folder: is made, or written over.
        texts: that byte-pair encoding learns its merges from; any printable ASCII can be encoded.
        apart: a regular expression; what matches it is not merged with what stands beside it.
        seed: of the weights.
    """
    _write(folder, _tokenizer(texts, apart), seed)


def write_word_policy(folder: Path, turns: Sequence[str], said: str, seed: int) -> None:
    """Write tokenizer and weights of a policy to which a whole turn is one token, so that random weights play now and then.

    Args:
        folder: is made, or written over.
        turns: what the policy may say, each one token.
        said: has every word and every character that the game says; other characters are one token, `?`.
        seed: of the weights.
    """
    pattern = "|".join([*map(re.escape, turns), "[A-Za-z]+", "."])
    names = ["<pad>", "<eos>", *dict.fromkeys([*turns, *sorted({*re.findall(pattern, said), "?"})])]
    tokenizer = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    tokenizer.decoder = decoders.Fuse()
    _write(folder, _fast(tokenizer), seed)


def _write(folder: Path, tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=4 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _tokenizer(texts: Sequence[str], apart: str) -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(apart), "isolated")
    inner.decoder = decoders.Fuse()
    trainer = trainers.BpeTrainer(
        vocab_size=MOST_TOKENS,
        min_frequency=LEAST_SEEN,
        special_tokens=["<pad>", "<eos>"],
        initial_alphabet=list(string.ascii_letters + string.digits + string.punctuation + " \n"),
        max_token_length=400,
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    return _fast(inner)


def _fast(inner: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", model_max_length=POSITIONS, clean_up_tokenization_spaces=False
    )
