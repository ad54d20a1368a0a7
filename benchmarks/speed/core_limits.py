"""What a core can do with a model: `python -m benchmarks.speed.core_limits POLICY DATA FILE`, which `make bench CASE=real` runs each round.

Measured are the rate of a product that fits the caches, that of the model's own products with few and many rows, the memory, and the tokens
per second of the processor that lightrl and transformers generate. All of it is of one thread.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from benchmarks.speed.bench_cases import REAL, ROLLOUTS
from benchmarks.speed.decode import engine_run, generate_run, speed
from benchmarks.speed.step_profile import best_rate
from lightrl import Policy, PretrainedPolicy, Prompt

ROWS = (1, 8, 32, 512)
"""Of the products: those of decode steps, and those of a micro-batch."""
GENERATED = {32: (4, 8, 1), 8: (1, 8, 2), 1: (1, 1, 4)}
"""Rows that are decoded together: prompts, completions of each, and how often with other prompts."""
LARGE = 2**27
"""Numbers of a tensor that no cache holds: half a GB."""
PASSES = 3
"""Of which the quickest counts."""


def quickest(run: Callable[[], object]) -> float:
    """Seconds of the processor for the quickest of some passes."""
    times = []
    for _ in range(PASSES):
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    return min(times)


@torch.inference_mode()
def product_rate(weights: Sequence[Tensor], rows: int) -> float:
    """Billions of additions and multiplications a second for so many rows times each weight in turn, as in a pass of the model."""
    inputs = [torch.randn(rows, weight.shape[1]) for weight in weights]

    def run() -> None:
        for given, weight in zip(inputs, weights, strict=True):
            nn.functional.linear(given, weight)

    return 2 * rows * sum(weight.numel() for weight in weights) / quickest(run) / 1e9


def memory_rates() -> dict[str, float]:
    """GB that are read a second, and that are read and written by a copy."""
    source = torch.ones(LARGE)
    target = torch.empty_like(source).copy_(source)
    gigabytes = source.nbytes / 1e9
    return {"read": gigabytes / quickest(source.sum), "copy": 2 * gigabytes / quickest(lambda: target.copy_(source))}


def linear_weights(model: nn.Module) -> list[Tensor]:
    """The matrices of all linear layers, the head last; each once."""
    found = {id(layer.weight): layer.weight for layer in model.modules() if isinstance(layer, nn.Linear)}
    return list(found.values())


def generation(policy: Policy, peer: Policy, prompts: Sequence[Prompt], cap: int) -> dict[int, dict[str, float]]:
    """Tokens per second of the processor, by rows and side. `peer`: the policy as transformers loads it, whose weights begin anywhere."""
    found = {}
    engine = engine_run(policy, cap)
    # it compares its decode step with the model's once in a run
    engine(list(prompts[-1:]), 1)
    for rows, (together, group, times) in GENERATED.items():
        chosen = [list(prompts[i * together : (i + 1) * together]) for i in range(times)]
        sides: dict[str, Sequence[Callable[[], int]]] = {
            "trl": [generate_run(peer, asked, group, cap, "cpu") for asked in chosen],
            "lightrl": [functools.partial(engine, asked, group) for asked in chosen],
        }
        found[rows] = {side: speed(functools.partial(_tokens, runs), "cpu", time.process_time) for side, runs in sides.items()}
    return found


def _tokens(runs: Sequence[Callable[[], int]]) -> int:
    return sum(run() for run in runs)


def rendered(policy: Policy, data: Path) -> list[Prompt]:
    """The questions of a file as the chat template writes them, so that both sides read the same."""
    asked = [json.loads(line)["prompt"] for line in data.read_text().splitlines()]
    texts = (_templated(policy, question) for question in asked)
    return [Prompt(id=str(i), text=text, rendered=True) for i, text in enumerate(texts)]


def _templated(policy: Policy, question: str) -> str:
    turns = [{"role": "user", "content": question}]
    return str(policy.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))


def measured(policy: Policy, peer: Policy, data: Path, cap: int, seed: int) -> dict[str, Any]:
    """All limits of the core with a policy, its sizes, and the mean length of a prompt. `peer`: the same, as transformers loads it."""
    torch.manual_seed(seed)
    prompts = rendered(policy, data)
    lengths = [len(policy.encode(prompt)) for prompt in prompts]
    random.Random(seed).shuffle(prompts)
    *layers, head = linear_weights(policy.model)
    return {
        "best_gflops": best_rate(),
        "memory_gb_s": memory_rates(),
        "products_gflops": {rows: product_rate([*layers, head], rows) for rows in ROWS},
        "tokens_per_s": generation(policy, peer, prompts, cap),
        "prompt_tokens": sum(lengths) / len(lengths),
        "layers": sum(weight.numel() for weight in layers),
        "head": head.numel(),
    }


def main() -> None:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", type=Path, help="folder of a chat model")
    parser.add_argument("data", type=Path, help="questions, a line of JSON each")
    parser.add_argument("file", type=Path, help="is written")
    parser.add_argument("--seed", type=int, default=0, help="decides which questions are answered")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    policy = PretrainedPolicy(str(arguments.policy)).build()
    peer = Policy(AutoModelForCausalLM.from_pretrained(arguments.policy, dtype=torch.float32), policy.tokenizer)
    found = measured(policy, peer, arguments.data, ROLLOUTS[REAL].cap, arguments.seed)
    arguments.file.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
