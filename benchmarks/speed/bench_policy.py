"""Policies and data of the cases: a Llama with random weights whose completions have lengths as asked, and prompts of digits."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import torch

from benchmarks.speed.bench_cases import Examples, Rollouts

SIZES = {"133K": (64, 2), "1M": (128, 4), "15M": (384, 6)}
"""Width and layers."""
POSITIONS = 2048
CONSTANT = 3.0
"""Of the embeddings of all tokens: a coordinate that does not depend on the text, on which the logit of EOS rests."""


def write_policy(folder: Path, size: str, mean_length: float | None, vocabulary: int | None = None) -> None:
    """Write a Hugging Face folder.

    Args:
        folder: is made.
        size: a key of `SIZES`.
        mean_length: EOS has the probability 1 / mean_length at every token; None: hardly any.
        vocabulary: tokens; None: those of the alphabet.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    from lightrl.policy.tiny import ALPHABET, character_tokenizer

    width, layers = SIZES[size]
    further = "" if vocabulary is None else "".join(map(chr, range(0x20000, 0x20000 + vocabulary - len(ALPHABET) - 2)))
    tokenizer = character_tokenizer(ALPHABET + further, POSITIONS)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = LlamaForCausalLM(config)
    _fix_eos(model, int(tokenizer.eos_token_id or 0), mean_length)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@torch.no_grad()
def _fix_eos(model: torch.nn.Module, eos: int, mean_length: float | None) -> None:
    trunk, head = model.get_submodule("model"), model.get_submodule("lm_head").weight
    embeddings = trunk.get_submodule("embed_tokens").weight
    embeddings[:, 0] = CONSTANT
    head[:, 0] = 0.0
    head[eos] = 0.0
    ids = torch.randint(2, 24, (16, 64), generator=torch.Generator().manual_seed(1))
    hidden = trunk(ids).last_hidden_state.flatten(0, 1)
    others = (hidden @ head.T).index_fill(1, torch.tensor([eos]), -math.inf).logsumexp(-1).mean()
    odds = -30.0 if mean_length is None else -math.log(mean_length - 1)
    head[eos, 0] = (others + odds) / hidden[:, 0].mean()


def digits(tokens: int, source: random.Random) -> str:
    """A text of so many digits."""
    return "".join(source.choices("0123456789", k=tokens))


def write_prompts(file: Path, case: Rollouts) -> None:
    """Prompts of one length, as a line of JSON each."""
    source = random.Random(0)
    rows = ({"prompt": digits(case.prompt_tokens - 1, source) + "="} for _ in range(2000))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_examples(file: Path, case: Examples) -> None:
    """Prompts with an answer, and with a better and a worse one, as a line of JSON each."""
    source = random.Random(0)

    def row() -> dict[str, str]:
        one, other = (digits(source.randint(8, case.longest) - 1, source) for _ in range(2))
        return {"prompt": digits(case.prompt_tokens - 1, source) + "=", "completion": one, "chosen": one, "rejected": other}

    file.write_text("".join(json.dumps(row()) + "\n" for _ in range(case.examples)))
