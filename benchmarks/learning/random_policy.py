"""A policy with random weights whose tokens are learnt from texts, as a Hugging Face folder."""

from __future__ import annotations

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
    tokenizer = _tokenizer(texts, apart)
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
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", model_max_length=POSITIONS, clean_up_tokenization_spaces=False
    )
