"""Where the time of a step goes, by phase and operation: `python -m benchmarks.speed.step_profile`, or `make bench CASE=step_profile`.

Generates and learns from one rollout of the case `15m` of `make bench` on one core, and adds up the time of all operations by what they
do. The products of matrices stand beside the rate of a product that fits the core's caches: what the core can do at best. The table is
written to docs/speed.md.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from lightrl_workshop import rollouts_with
from torch.profiler import ProfilerActivity, profile

from benchmarks.speed.bench_cases import ROLLOUTS
from benchmarks.speed.bench_policy import write_policy, write_prompts
from benchmarks.speed.speed_page import PAGE, filled
from lightrl import Policy, PretrainedPolicy, Prompt, Rollout, TransformersEngine
from lightrl.rows import Sequences
from lightrl.training.steps.fitting_passes import cut_rows, fitting_tokens

ONEDNN = "mkldnn::_linear_pointwise"
"""Products of few rows with AVX-512, whose operations the profiler does not count."""
KINDS = {
    "products of matrices": ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", ONEDNN),
    "attention": ("aten::_scaled_dot_product", "aten::sparse_sampled_addmm", "aten::_softmax", "aten::_embedding_bag"),
    "sums, products and functions of single numbers": (
        *("aten::mul", "aten::add", "aten::sub", "aten::div", "aten::neg", "aten::pow", "aten::silu", "aten::rsqrt", "aten::sum"),
        *("aten::mean", "aten::addcmul", "aten::exp", "aten::_fused_rms_norm", "aten::linalg_vector_norm"),
    ),
    "copies, gathers and fills": (
        *("aten::copy_", "aten::cat", "aten::index", "aten::scatter", "aten::gather", "aten::fill_", "aten::zero_", "aten::embedding"),
        "aten::clone",
    ),
}
"""Beginnings of the names of operations; the first kind that fits counts."""
REST = "everything else: calls from Python, views, sampling"
PASSES = 5
"""Of each phase with and without the profiler; on some, single numbers take twice as long as on others."""


def main() -> None:
    """Measure, print the table, and put it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/profile"), help="folder for the policy")
    out = parser.parse_args().out
    torch.set_num_threads(1)
    case = ROLLOUTS["15m"]
    write_policy(out / "policy", case.size, case.mean_length)
    write_prompts(out / "prompts.jsonl", case)
    policy = PretrainedPolicy(str(out / "policy")).build()
    lines = (out / "prompts.jsonl").read_text().splitlines()[: case.prompts]
    prompts = [Prompt(id=str(i), text=json.loads(line)["prompt"]) for i, line in enumerate(lines)]
    loop = rollouts_with(policy, TransformersEngine(max_new_tokens=case.cap))
    rollout = loop.rollout(prompts, case.group)
    phases: dict[str, Callable[[], object]] = {
        "generation": lambda: loop.rollout(prompts, case.group),
        "forward and backward": lambda: learn(policy, rollout),
    }
    best = best_rate()
    rows = [row for name, phase in phases.items() for row in profiled(name, phase, best)]
    head = "| phase | operations | ms | share | billion operations a second |\n|---|---|---|---|---|\n"
    text = f"{head}{''.join(rows)}\nA product of matrices that fits the caches runs at {best:.0f} billion operations a second on this core."
    print(text)
    PAGE.write_text(filled(PAGE.read_text(), "profile", text))


def learn(policy: Policy, rollout: Rollout) -> None:
    """Log-probs of all completions and their gradient, in the micro-batches of a CPU."""
    policy.train()
    lengths = rollout.attention_mask.sum(1)
    budget = fitting_tokens(policy.model, "32-true", "cpu", 2.0**36)
    sequences = Sequences(rollout.input_ids, lengths, torch.arange(len(lengths)))
    for rows in cut_rows(sequences, budget, policy.longest_packed):
        policy(rollout.input_ids[rows], rollout.response_mask[rows]).logprobs.sum().backward()
    policy.zero_grad()


def profiled(name: str, phase: Callable[[], object], best: float) -> list[str]:
    """Lines of the table: shares of operations are those under the profiler, the time is that without it, each of the quickest pass."""
    phase()
    whole = min(spent(phase) for _ in range(PASSES))
    times, flops = min((operations(phase) for _ in range(PASSES)), key=lambda found: found[0].total())
    rows = []
    for kind in (*KINDS, REST):
        share = times[kind] / times.total()
        rate = f"{flops / (share * whole) / 1e9:.0f}" if kind == "products of matrices" else ""
        rows.append(f"| {name} | {kind} | {1000 * share * whole:.0f} | {share:.0%} | {rate} |\n")
    rows.append(
        f"| {name} | all, of which products at the best rate would take {1000 * flops / best / 1e9:.0f} | {1000 * whole:.0f} | | |\n"
    )
    return rows


def spent(phase: Callable[[], object]) -> float:
    """Seconds of the processor for a pass."""
    begun = time.process_time()
    phase()
    return time.process_time() - begun


def operations(phase: Callable[[], object]) -> tuple[Counter[str], int]:
    """Microseconds of each kind of operation in a pass, and additions and multiplications of its products of matrices."""
    times, flops = Counter[str](), 0
    with profile(activities=[ProfilerActivity.CPU], with_flops=True, record_shapes=True) as found:
        phase()
    for event in found.key_averages():
        kind = next((kind for kind, begins in KINDS.items() if event.key.startswith(begins)), REST)
        times[kind] += event.self_cpu_time_total
        flops += event.flops if kind == "products of matrices" else 0
    of_onednn = (event.input_shapes for event in found.events() if event.name == ONEDNN)
    return times, flops + sum(2 * math.prod(rows) * weight[0] for rows, weight, *_ in of_onednn)


def best_rate() -> float:
    """Billions of additions and multiplications a second of a product of matrices in float32, the best of ten."""
    a, b = torch.randn(2, 512, 512)
    rates = []
    for _ in range(10):
        begun = time.process_time()
        for _ in range(20):
            a @ b
        rates.append(20 * 2 * 512**3 / (time.process_time() - begun) / 1e9)
    return max(rates)


if __name__ == "__main__":
    main()
