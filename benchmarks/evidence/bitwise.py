"""Compares log-probs of engine and trainer, bit by bit, by lightrl-bitwise and by default: `python -m benchmarks.evidence.bitwise POLICY`.

POLICY is a folder, a hub id or a GGUF file. Completions are sampled in batches, and scored in another order, in micro-batches of another
size. Times are CPU seconds of one thread. Each batch is added to the file `--out` as soon as it is there, and what is in it is not run
again; the last line of the output adds it up.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from lightrl_bitwise import BitwiseEngine, BitwisePolicy
from torch import Tensor

from lightrl import Policy, PretrainedPolicy, Prompt, Request, Result, RolloutEngine, TransformersEngine
from lightrl.policy.weights import TrainerWeights

GROUP = 4
"""Completions of a prompt."""
SCORED = 6
"""Rows of a micro-batch in which log-probs are computed again; a batch has more."""


class Compared(NamedTuple):
    """The outcome of one batch."""

    setting: str
    batch: int
    tokens: int
    differing: int
    largest: float
    decode_s: float
    score_s: float
    learn_s: float
    """Of the forward and backward pass of `learnt` tokens; only the first batch has one."""
    learnt: int


def compared(policy: Policy, engine: RolloutEngine, setting: str, batch: int, rows: int, limit: int) -> Compared:
    """Sample a batch, and compute the log-probs of its tokens again."""
    contexts = [policy.encode(Prompt(id=str(i), messages=question(batch * rows + i))) for i in range(rows // GROUP)]
    asked = [Request(i, contexts[i // GROUP], limit, engine.sampling, policy.eos_token_ids, batch * rows + i, i) for i in range(rows)]
    begun = time.process_time()
    engine.submit(asked)
    found = list[Result]()
    while results := engine.results():
        found += results
    engine.forget(range(rows))
    decoded = time.process_time()
    random.Random(batch).shuffle(found)
    differences = [
        difference
        for first in range(0, rows, SCORED)
        for difference in apart(policy, [(asked[result.id].context, result) for result in found[first : first + SCORED]])
    ]
    scored = time.process_time()
    differing = sum(difference != 0 for difference in differences)
    learnt = learn(policy, [(asked[result.id].context, result) for result in found[:SCORED]]) if batch == 0 else 0
    times = (decoded - begun, scored - decoded, time.process_time() - scored)
    return Compared(setting, batch, len(differences), differing, max(differences), *times, learnt)


def learn(policy: Policy, rows: Sequence[tuple[Sequence[int], Result]]) -> int:
    """One forward and backward pass; the number of tokens that were scored in it."""
    ids, mask, _ = together(rows)
    policy(ids, mask).logprobs.sum().backward()
    policy.zero_grad()
    return int(mask.sum())


@torch.no_grad()
def apart(policy: Policy, rows: Sequence[tuple[Sequence[int], Result]]) -> list[float]:
    """The differences of all tokens of some rows."""
    ids, mask, said = together(rows)
    differences: list[float] = (policy(ids, mask).logprobs[mask] - said).abs().tolist()
    return differences


def together(rows: Sequence[tuple[Sequence[int], Result]]) -> tuple[Tensor, Tensor, Tensor]:
    """`[n, L]` ids and mask of rows, and the log-probs that the engine gave."""
    whole = [[*context, *result.tokens] for context, result in rows]
    width = max(map(len, whole))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in whole])
    places = torch.arange(width)
    mask = torch.stack([(places >= len(context)) & (places < len(row)) for row, (context, _) in zip(whole, rows, strict=True)])
    return ids, mask, torch.tensor([logprob for _, result in rows for logprob in result.logprobs])


def question(number: int) -> list[dict[str, str]]:
    """A message to the policy."""
    numbers = random.Random(number)
    first, second = numbers.randint(10, 99), numbers.randint(10, 99)
    asked = ("What is {} + {}? Explain.", "Tell me a story with {} cats and {} dogs.", "Write a poem about the years {} and {}.")
    return [{"role": "user", "content": asked[number % len(asked)].format(first, second)}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy")
    parser.add_argument("--setting", choices=("bitwise", "default"), default="bitwise")
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--limit", type=int, default=64, help="most tokens of a completion")
    parser.add_argument("--out", type=Path, default=Path("runs/bitwise.jsonl"))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    base = PretrainedPolicy(path=chosen.policy)
    exact = chosen.setting == "bitwise"
    policy = (BitwisePolicy(base) if exact else base).build()
    engine: RolloutEngine = BitwiseEngine(chosen.limit, max_rows=chosen.rows) if exact else TransformersEngine(chosen.limit)
    engine.start()
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    known = [Compared(**json.loads(line)) for line in chosen.out.read_text().splitlines()] if chosen.out.exists() else []
    done = [found for found in known if found.setting == chosen.setting]
    while sum(found.tokens for found in done) < chosen.tokens:
        engine.update_weights(TrainerWeights(policy), len(done))
        done.append(compared(policy, engine, chosen.setting, len(done), chosen.rows, chosen.limit))
        with chosen.out.open("a") as file:
            file.write(json.dumps(done[-1]._asdict()) + "\n")
        tokens, differing = sum(found.tokens for found in done), sum(found.differing for found in done)
        rates = [tokens / sum(f.decode_s for f in done), tokens / sum(f.score_s for f in done)]
        learnt = sum(f.learnt for f in done) / sum(f.learn_s for f in done)
        print(
            f"{chosen.setting}: {tokens:,} tokens, {differing:,} differ, by {max(found.largest for found in done):.3g} at most; "
            f"{rates[0]:.0f} tokens/s decoded, {rates[1]:.0f} scored, {learnt:.0f} learnt",
            flush=True,
        )


if __name__ == "__main__":
    main()
