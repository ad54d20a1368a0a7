"""Processor time of a training pass by the tokens of a micro-batch: `make bench CASE=micro_batches MODEL=x.gguf`.

Four prompts of 45 to 70 random tokens have eight completions of 20 to 64 each. All budgets take turns on one core, each twice, of
which the second pass counts; the medians are printed, with the one that `micro_batch_tokens: auto` chooses.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from lightrl import LoraPolicy, Policy, PretrainedPolicy
from lightrl.rows import Sequences
from lightrl.training.steps.fitting_passes import cut_rows, fitting_tokens, total_memory

PROMPTS, GROUP = (45, 60, 52, 70), 8
"""Tokens of each prompt, and completions of it."""


def rows_of(vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    """`[32, L]` ids and mask of the completions, and `[32]` lengths."""
    made = torch.Generator().manual_seed(0)
    lengths, rows = [], []
    for size in PROMPTS:
        prompt = torch.randint(vocabulary, (size,), generator=made)
        for further in torch.randint(20, 65, (GROUP,), generator=made).tolist():
            rows.append(torch.cat([prompt, torch.randint(vocabulary, (further,), generator=made)]))
            lengths.append((size, size + further))
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    begins, ends = torch.tensor(lengths).T
    places = torch.arange(ids.shape[1])
    return ids, (places >= begins[:, None]) & (places < ends[:, None]), ends


def seconds(policy: Policy, budget: int, rows: tuple[Tensor, Tensor, Tensor]) -> tuple[float, int]:
    """Processor time of the passes over all rows, and the number of micro-batches."""
    ids, mask, lengths = rows
    cuts = cut_rows(Sequences(ids, lengths, torch.arange(len(ids))), budget, policy.longest_packed)
    policy.zero_grad()
    start = time.process_time()
    for cut in cuts:
        policy(ids[cut], mask[cut]).logprobs.sum().backward()
    return time.process_time() - start, len(cuts)


def measured(policy: Policy, budgets: Sequence[int], rounds: int) -> dict[int, tuple[float, int]]:
    """The median of the rounds, and the micro-batches, by budget."""
    rows = rows_of(policy.model.config.get_text_config().vocab_size)
    found = {budget: list[tuple[float, int]]() for budget in budgets}
    for _ in range(rounds):
        for budget in budgets:
            # the first pass takes the memory of its budget, as the first step of a run does
            seconds(policy, budget, rows)
            found[budget].append(seconds(policy, budget, rows))
    return {budget: (statistics.median(spent for spent, _ in of), of[0][1]) for budget, of in found.items()}


def main() -> None:
    """Print a line for each budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder, hub id or GGUF file of the policy")
    parser.add_argument("--lora", action="store_true", help="train adapters of rank 16")
    parser.add_argument("--budgets", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096], metavar="TOKENS")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    base = PretrainedPolicy(arguments.model)
    policy = (LoraPolicy(base) if arguments.lora else base).build()
    found = measured(policy, arguments.budgets, arguments.rounds)
    chosen, best = fitting_tokens(policy.model, "32-true", "cpu", total_memory()), min(spent for spent, _ in found.values())
    print("| tokens | micro-batches | s | of the best |\n|---|---|---|---|")
    for budget, (spent, cuts) in found.items():
        print(f"| {budget:,}{' (auto)' * (budget == chosen)} | {cuts} | {spent:.2f} | {spent / best:.2f} |")


if __name__ == "__main__":
    main()
