"""Tokenizers of several makes, each with the special tokens that a chat template of `templates/` writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

TEMPLATES = Path(__file__).parent / "templates"
SPECIAL = {
    "chatml": ["<|im_start|>"],
    "headers": ["<|start_header_id|>", "<|end_header_id|>"],
    "start_of_turn": ["<start_of_turn>"],
    "role_tokens": ["<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"],
    "drops_reasoning": ["<|User|>", "<|Assistant|>", "<|tool_output|>"],
    "turn_tokens": ["<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|SYSTEM_TOKEN|>"],
    "instructions": ["[INST]", "[/INST]"],
}
EOS = {
    "headers": "<|eot_id|>",
    "start_of_turn": "<end_of_turn>",
    "role_tokens": "<|end|>",
    "role_letters": "</s>",
    "instructions": "</s>",
    "letters": "</s>",
    "drops_reasoning": "<|end_of_sentence|>",
    "turn_tokens": "<|END_OF_TURN_TOKEN|>",
}


def byte_level(prefix: bool = False, merged: bool = False) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    corpus = ["said one\n\nsaid two: user assistant system tool"] * 3 if merged else []
    made.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False))
    return made


def sentence_piece(scheme: str) -> Tokenizer:
    """Characters, and bytes where there is none; a space in front of every text, of the first, or by a normalizer as in older files."""
    characters = ["▁", *(chr(i) for i in range(33, 127)), "</s>", "\n"]
    pieces = ["<unk>", *(f"<0x{i:02X}>" for i in range(256)), *characters]
    made = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if scheme == "prepend":
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme)
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return made


def unigram() -> Tokenizer:
    """A model that finds `</s>` in its vocabulary, and a normalizer that makes it of other letters."""
    pieces = [("<unk>", 0.0), ("</s>", 0.0), *((character, -3.0) for character in ["▁", "\n", *(chr(i) for i in range(33, 127))])]
    made = Tokenizer(models.Unigram([*pieces, *((f"<0x{i:02X}>", -9.0) for i in range(256))], 0, True))
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return made


MAKES: dict[str, Callable[[], Tokenizer]] = {
    "bytes": byte_level,
    "byte pairs": lambda: byte_level(merged=True),
    "byte pairs behind a space": lambda: byte_level(prefix=True, merged=True),
    "always": lambda: sentence_piece("always"),
    "first": lambda: sentence_piece("first"),
    "prepend": lambda: sentence_piece("prepend"),
    "unigram": unigram,
}


@cache
def make_tokenizer(template: str | None, make: str = "bytes") -> Any:
    """A tokenizer with a chat template, none for None."""
    name = template or "letters"
    made = PreTrainedTokenizerFast(
        tokenizer_object=MAKES[make](),
        bos_token="<s>",
        eos_token=EOS.get(name, "<|im_end|>"),
        additional_special_tokens=SPECIAL.get(name, ["<|im_start|>"]),
        clean_up_tokenization_spaces=False,
    )
    if template is not None:
        made.chat_template = re.sub(r"\s+$", "", (TEMPLATES / f"{template}.jinja").read_text())
    return made


@pytest.fixture(scope="session")
def tokenizer_of() -> Callable[..., Any]:
    return make_tokenizer


@pytest.fixture(scope="session")
def makes() -> list[str]:
    return list(MAKES)
