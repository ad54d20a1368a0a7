"""The work that `make bench CASE=gpu` fixes for both sides of the comparison, and the clock of a device."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.speed.bench_meter import Meter, processor_peak


@dataclass(frozen=True)
class Shape:
    """A policy with the sizes of a well-known one, and rollouts for it."""

    width: int
    mlp: int
    layers: int
    heads: int
    key_heads: int
    vocabulary: int
    prompts: int
    """Of a rollout."""
    group: int
    prompt_tokens: int
    cap: int
    """Tokens of nearly every completion: EOS is as likely as any other token."""

    @property
    def rows(self) -> int:
        """Completions of a rollout."""
        return self.prompts * self.group


SHAPES = {
    # Qwen2.5-0.5B
    "0.5B": Shape(896, 4864, 24, 14, 2, 151_936, prompts=32, group=8, prompt_tokens=256, cap=512),
    # to try the benchmark itself
    "tiny": Shape(32, 64, 2, 4, 2, 512, prompts=4, group=4, prompt_tokens=12, cap=16),
}
LR = 1e-6
WARM = 2
"""Steps that are not counted."""
STEPS = 6
PEAK_TFLOPS = {"H200": 989, "H100": 989, "A100": 312, "L40S": 362, "L4": 121, "A10": 125, "RTX 4090": 165, "RTX 3090": 71}
"""Of a device whose name contains this: dense bfloat16, as its maker states it."""


def write_shape(folder: Path, shape: Shape) -> int:
    """Write a Qwen2 with random weights in bfloat16 as a Hugging Face folder.

    Returns:
        Its parameters.
    """
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from lightrl.policy.tiny import ALPHABET, character_tokenizer

    positions = 2 * (shape.prompt_tokens + shape.cap)
    further = "".join(map(chr, range(0x20000, 0x20000 + shape.vocabulary - len(ALPHABET) - 2)))
    tokenizer = character_tokenizer(ALPHABET + further, positions)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.width,
        intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def device_meter() -> Meter:
    """Counts seconds until the device has done what it was given, and the peak of its memory."""
    if not torch.cuda.is_available():
        return Meter(time.perf_counter, processor_peak)

    def clock() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return Meter(clock, lambda: torch.cuda.max_memory_reserved() / 1e9)
