"""Tiny reward models in folders: three architectures, a tokenizer of characters, and heads with known opinions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForSequenceClassification,
)

SPECIAL = ["<unk>", "</s>", "<s>", "<pad>", "<|user|>", "<|assistant|>"]
LETTERS = "abcdefghij0123456789=?+ "
TEMPLATE = (
    "<s>{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SIZES: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
FAMILIES: dict[str, Callable[..., Any]] = {
    "llama": lambda **more: LlamaForSequenceClassification(LlamaConfig(**SIZES, max_position_embeddings=64, **more)),
    "qwen2": lambda **more: Qwen2ForSequenceClassification(Qwen2Config(**SIZES, num_key_value_heads=1, max_position_embeddings=64, **more)),
    "gpt2": lambda **more: GPT2ForSequenceClassification(GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=64, **more)),
}


def tokenizer_of(pad: str | None, side: str, template: str | None) -> PreTrainedTokenizerFast:
    """One token per character; the special tokens by their names, `<s>` in front of every text."""
    words = {word: number for number, word in enumerate([*SPECIAL, *LETTERS])}
    inner = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", words["<s>"])])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token=pad, padding_side=side,
        additional_special_tokens=SPECIAL[4:], chat_template=template, clean_up_tokenization_spaces=False,
    )  # fmt: skip


def save(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write it such that it stays what it is: by the model beside it, transformers would take it for that family's tokenizer."""
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tokenizer_class": "PreTrainedTokenizerFast"}))


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes a reward model and gives its folder."""

    def make(
        family: str = "llama",
        pad: str | None = "<pad>",
        side: str = "right",
        template: str | None = TEMPLATE,
        name: str = "rm",
        **more: Any,
    ) -> Path:
        tokenizer = tokenizer_of(pad, side, template)
        settings = {"num_labels": 1, "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": tokenizer.pad_token_id, **more}
        torch.manual_seed(3)
        model = FAMILIES[family](vocab_size=len(tokenizer), **settings)
        with torch.no_grad():
            # scores of about 1, so that 1e-5 is a small difference
            model.score.weight.normal_()
        model.save_pretrained(tmp_path / name)
        save(tokenizer, tmp_path / name)
        return tmp_path / name

    return make


@pytest.fixture
def likes(tmp_path: Path) -> Callable[[str], Path]:
    """A reward model, made by hand, that says 1 at every token it likes and 0 at all others."""

    def make(liked: str) -> Path:
        tokenizer = tokenizer_of("<pad>", "right", None)
        config = LlamaConfig(
            **{**SIZES, "num_hidden_layers": 1}, vocab_size=len(tokenizer), num_labels=1, pad_token_id=3, bos_token_id=2, eos_token_id=1
        )
        model = LlamaForSequenceClassification(config)
        ids = tokenizer.convert_tokens_to_ids(list(liked))
        with torch.no_grad():
            # the block adds nothing, so what the norm leaves of the embedding reaches the head
            model.model.layers[0].self_attn.o_proj.weight.zero_()
            model.model.layers[0].mlp.down_proj.weight.zero_()
            model.model.embed_tokens.weight.zero_()
            model.model.embed_tokens.weight[:, 1] = 1.0
            model.model.embed_tokens.weight[ids] = torch.eye(16)[0]
            model.score.weight.copy_(torch.eye(16)[:1] / 4)
        model.save_pretrained(tmp_path / "likes")
        save(tokenizer, tmp_path / "likes")
        return tmp_path / "likes"

    return make


@pytest.fixture
def rollout() -> Callable[..., Any]:
    """A rollout of these prompts and completions, whose own tokens mean nothing to a reward model."""
    from lightrl import Prompt, Rollout

    def make(*rows: tuple[Any, str]) -> Rollout:
        n = len(rows)
        asked = [{"text": prompt} if isinstance(prompt, str) else {"messages": tuple(prompt)} for prompt, _ in rows]
        return Rollout(
            prompts=[Prompt(id=f"p{i}", **prompt) for i, prompt in enumerate(asked)],
            completions=[completion for _, completion in rows],
            input_ids=torch.zeros(n, 3, dtype=torch.long),
            attention_mask=torch.ones(n, 3, dtype=torch.bool),
            response_mask=torch.tensor([[False, True, True]]).expand(n, -1).clone(),
            rollout_logprobs=torch.zeros(n, 3),
            group=torch.arange(n),
            finish_reason=["stop"] * n,
            policy_version=torch.zeros(n, dtype=torch.long),
            temperature=1.0,
        )

    return make
