"""A policy to which a whole call is one token, so that one of random weights calls in most of its turns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


def word_policy(words: Sequence[str], characters: str, seed: int = 0) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A model of random weights with its tokenizer, to which words are tokens, and so are characters; others become `?`."""
    names = ["<pad>", "<eos>", *words, *sorted({*characters, "?"})]
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="?"))
    pattern = Regex("|".join("".join(f"\\{c}" if not c.isalnum() else c for c in word) for word in words) + "|.")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(pattern, "isolated")
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", model_max_length=512)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(names), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, pad_token_id=0,
        eos_token_id=1, bos_token_id=None, max_position_embeddings=512,
    )  # fmt: skip
    return LlamaForCausalLM(config), fast
