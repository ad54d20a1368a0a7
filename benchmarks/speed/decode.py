"""Compares the decoding speed with that of transformers' generate: run `OMP_NUM_THREADS=1 python -m benchmarks.speed.decode`.

The numbers are tokens per second without padding (EOS included), the median of interleaved runs. The bias of EOS sets the lengths:
"skewed" samples EOS with a constant probability, so that lengths are geometric; "flat" never samples it.
"""

# ruff: noqa: T201
import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from lightrl_workshop import rollouts_with

from lightrl import Policy, Prompt, TransformersEngine
from lightrl.policy.tiny import ALPHABET, character_tokenizer

SIZES = {"1M": (128, 4), "15M": (384, 8)}
"""Width and layers."""


def build(size: str, vocabulary: int, eos_probability: float, device: str) -> Policy:
    """A random Llama that draws EOS with this probability at every step."""
    from transformers import LlamaConfig, LlamaForCausalLM

    width, layers = SIZES[size]
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=1024,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    head = torch.nn.Linear(width, vocabulary)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    odds = eos_probability / (1 - eos_probability) * (vocabulary - 1)
    head.bias.data[1] = torch.tensor(odds).log() if odds else -1e4
    model.lm_head = head
    return Policy(model.to(device), character_tokenizer(ALPHABET, 1024))


def engine_run(policy: Policy, cap: int) -> Callable[[list[Prompt], int], int]:
    """Generates with one engine, completions of each prompt; returns the number of real tokens."""
    rollouts = rollouts_with(policy, TransformersEngine(max_new_tokens=cap))
    return lambda prompts, group: int(rollouts.rollout(prompts, group).response_mask.sum())


def generate_run(policy: Policy, prompts: list[Prompt], group: int, cap: int, device: str) -> Callable[[], int]:
    """Generates with `model.generate`; returns the number of real tokens."""
    batch: dict[str, Any] = policy.tokenizer([p.text for p in prompts], return_tensors="pt", padding=True, padding_side="left").to(device)
    batch = {key: value.repeat_interleave(group, 0) for key, value in batch.items() if key != "token_type_ids"}
    begin, eos, pad = batch["input_ids"].shape[1], policy.eos_token_id, policy.tokenizer.pad_token_id

    def run() -> int:
        policy.model.eval()
        out = policy.model.generate(**batch, do_sample=True, max_new_tokens=cap, top_k=0, eos_token_id=eos, pad_token_id=pad)
        ended = (out[:, begin:] == eos).int().cumsum(1)
        return int((ended.cumsum(1) <= 1).sum())

    return run


def speed(run: Callable[[], int], device: str, clock: Callable[[], float] = time.perf_counter) -> float:
    """Real tokens per second of one run."""
    start = clock()
    tokens = run()
    if device == "cuda":
        torch.cuda.synchronize()
    return tokens / (clock() - start)


def main() -> None:
    """Print one line per kind of work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="1M")
    parser.add_argument("--vocabulary", type=int, default=24)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--mean", type=float, default=31, help="mean length of the skewed completions")
    parser.add_argument("--cap", type=int, default=128, help="limit of the skewed completions; an eighth of it for the flat ones")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    same = [Prompt(id=str(i), text=f"{i:04d}+{i:04d}=") for i in range(args.prompts)]
    mixed = [Prompt(id=str(i), text=f"{i:04d}+{'7' * (i % 9)}=") for i in range(args.prompts)]
    work = [("skewed", 1 / args.mean, args.cap, same), ("skewed, mixed prompts", 1 / args.mean, args.cap, mixed)]
    work.append(("flat", 0.0, args.cap // 8, same))
    print(f"Llama {args.size}, vocabulary {args.vocabulary}, {args.prompts} x {args.group} rows, {args.device}")
    print(f"{'work':24}{'generate tok/s':>16}{'engine tok/s':>16}{'times':>8}")
    for name, eos, cap, prompts in work:
        policy = build(args.size, args.vocabulary, eos, args.device)
        engine = partial(engine_run(policy, cap), prompts, args.group)
        runs = [generate_run(policy, prompts, args.group, cap, args.device), engine]
        for run in runs:
            run()
        theirs, ours = (
            statistics.median(s) for s in zip(*([speed(r, args.device) for r in runs] for _ in range(args.repeats)), strict=True)
        )
        print(f"{name:24}{theirs:16.0f}{ours:16.0f}{ours / theirs:8.2f}")


if __name__ == "__main__":
    main()
