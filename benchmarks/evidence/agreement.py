"""Miss and false-alarm rates of the checks of an engine's weights.

Run `OMP_NUM_THREADS=1 python -m benchmarks.evidence.agreement --policy FOLDER`.
For each format it keeps, in a file of JSON lines, the log-probs of short answers from an engine and from the trainer's forward: with the
same weights, and with planted faults. From these rows it draws trials as the canary has them. A run that is ended goes on where it was.
"""

# ruff: noqa: T201
import argparse
import json
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import torch
from lightrl_workshop.checks.continuations import answers

from benchmarks.evidence.real_sized import RealSizedPolicy
from benchmarks.evidence.wide_bf16 import WideBF16
from lightrl import Policy, PretrainedPolicy, Prompt, Request, TransformersEngine
from lightrl.ops.agreement import Agreement, Answer, Limits, stood_still
from lightrl.policy.weights import TrainerWeights
from lightrl.rollout.probe import ROWS, TOKENS

RATES = (1e-6, 2e-5, 1e-4)
"""Learning rates of the update that an engine misses."""
TEMPERATURES = (0.9, 0.7, 1.3)
"""The trainer divides logits by 1, and the engine, wrongly, by these."""
FORMATS = {"float32": torch.float32, "bf16-true": torch.bfloat16, "bf16-mixed": torch.float32}
TRIALS = 400
COUNTRIES = (
    "Peru",
    "France",
    "Japan",
    "Italy",
    "Egypt",
    "Canada",
    "Spain",
    "Germany",
    "Russia",
    "China",
    "Greece",
    "Kenya",
    "Norway",
    "Cuba",
)
QUESTIONS = ("What is the capital of {}? Answer with one word.", "Tell me a story that begins in {}.", "Why would one travel to {}?")


def prompts(policy: Policy) -> list[Prompt]:
    """Questions for a chat model, digits for a tiny one."""
    if policy.tokenizer.chat_template is None:
        return [Prompt(id=str(i), text=f"{i * 7919 % 1000}=") for i in range(42)]
    texts = [question.format(land) for land in COUNTRIES for question in QUESTIONS]
    return [Prompt(id=str(i), messages=({"role": "user", "content": text},)) for i, text in enumerate(texts)]


class Updates:
    """AdamW on float32 weights with the gradients of a policy that learns from random advantages."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.weights = {name: parameter.detach().clone() for name, parameter in policy.model.named_parameters()}
        self._mean = {name: torch.zeros_like(value) for name, value in self.weights.items()}
        self._square = {name: torch.zeros_like(value) for name, value in self.weights.items()}
        self._steps = 0
        self.direction: dict[str, torch.Tensor] = {}

    def look(self, rows: list[tuple[list[int], list[int]]], seed: int) -> None:
        """Find the direction of the next update."""
        self._steps += 1
        signs = torch.randn(len(rows), generator=torch.Generator().manual_seed(seed))
        self.policy.model.zero_grad()
        ids, mask = padded(rows)
        (self.policy(ids, mask).logprobs.sum(1) * signs).mean().backward()
        for name, parameter in self.policy.model.named_parameters():
            assert parameter.grad is not None
            self._mean[name].lerp_(parameter.grad, 0.1)
            self._square[name].mul_(0.999).addcmul_(parameter.grad, parameter.grad, value=0.001)
            mean, square = self._mean[name] / (1 - 0.9**self._steps), self._square[name] / (1 - 0.999**self._steps)
            self.direction[name] = mean / (square.sqrt() + 1e-8)
        self.policy.model.zero_grad()

    def moved(self, rate: float) -> dict[str, torch.Tensor]:
        """The weights after the update with this learning rate."""
        return {name: value - rate * self.direction[name] for name, value in self.weights.items()}


class Side:
    """A policy in a format, whose weights engine and trainer share."""

    def __init__(self, policy: Policy, name: str, wide: WideBF16) -> None:
        self.policy, self.engine = policy, TransformersEngine(max_new_tokens=TOKENS)
        self.name, self.wide = name, wide
        self._version = count()

    def computing(self) -> AbstractContextManager[Any]:
        return torch.autocast("cpu", torch.bfloat16, cache_enabled=False) if self.name == "bf16-mixed" else nullcontext()

    @torch.no_grad()
    def take(self, weights: dict[str, torch.Tensor]) -> None:
        for name, parameter in self.policy.model.named_parameters():
            parameter.copy_(weights[name])

    @torch.no_grad()
    def sample(self, contexts: list[list[int]]) -> list[tuple[list[int], list[float]]]:
        """Tokens and log-probs of the engine."""
        requests = [
            Request(i, ids, TOKENS, self.engine.sampling, self.policy.eos_token_ids, seed=i, episode=i) for i, ids in enumerate(contexts)
        ]
        with self.computing(), self.wide:
            self.engine.update_weights(TrainerWeights(self.policy), next(self._version))
            found = answers(self.engine, requests)
        return [(found[i].tokens, found[i].logprobs) for i in range(len(requests))]

    @torch.no_grad()
    def score(self, rows: list[tuple[list[int], list[int]]], temperature: float = 1.0) -> list[list[float]]:
        """Log-probs of the trainer, packed as in training."""
        ids, mask = padded(rows)
        with self.computing(), self.wide:
            found = self.policy(ids, mask, temperature).logprobs
        return [values[chosen].tolist() for values, chosen in zip(found, mask, strict=True)]


def padded(rows: list[tuple[list[int], list[int]]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and the mask of what was sampled."""
    width = max(len(context) + len(tokens) for context, tokens in rows)
    ids, mask = torch.zeros(len(rows), width, dtype=torch.long), torch.zeros(len(rows), width, dtype=torch.bool)
    for i, (context, tokens) in enumerate(rows):
        ids[i, : len(context) + len(tokens)] = torch.tensor([*context, *tokens])
        mask[i, len(context) : len(context) + len(tokens)] = True
    return ids, mask


def measure(make: Any, out: Path, rounds: int, batch: int) -> None:
    """Write the rows of each round and format that the file does not have."""
    exact = make("float32")
    sides = {name: Side(make(str(dtype).removeprefix("torch.")), name, WideBF16()) for name, dtype in FORMATS.items()}
    other = fresh(make)
    updates, asked = Updates(exact), prompts(exact)
    random.Random(0).shuffle(asked)
    have = {(row["round"], row["format"]) for row in lines(out)}
    for number in range(rounds):
        contexts = [exact.encode(asked[(number * batch + i) % len(asked)]) for i in range(batch)]
        if all((number, name) in have for name in FORMATS):
            continue
        updates.look(rows_of(contexts, sides["float32"].sample(contexts)), number)
        for name, side in sides.items():
            if (number, name) in have:
                continue
            side.take(updates.weights)
            answer = side.sample(contexts)
            rows = rows_of(contexts, answer)
            found: dict[str, Any] = {"round": number, "format": name, "tokens": [t for t, _ in answer], "engine": [p for _, p in answer]}
            found["trainer"] = side.score(rows)
            for warmth in TEMPERATURES:
                # an engine that divides by `warmth` what the trainer leaves as it is: tokens as they were, log-probs of the other one
                found[f"temperature {warmth}"] = side.score(rows, 1 / warmth)
            for rate in RATES:
                side.take(updates.moved(rate))
                found[f"late {rate:g}"] = side.score(rows)
                after = side.sample(contexts)
                found[f"after {rate:g}"] = {
                    "tokens": [t for t, _ in after],
                    "engine": [p for _, p in after],
                    "trainer": side.score(rows_of(contexts, after)),
                }
            side.take(other)
            found["seed"] = side.score(rows)
            with out.open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(f"round {number}, {name}", flush=True)
            report(out)
        # the weights are other ones in every round
        updates.weights = updates.moved(2e-5)
        with torch.no_grad():
            for parameter_name, parameter in exact.model.named_parameters():
                parameter.copy_(updates.weights[parameter_name])


def fresh(make: Any) -> dict[str, torch.Tensor]:
    """Weights of another seed: each tensor is drawn anew with its own mean and spread."""
    numbers = torch.Generator().manual_seed(1)
    return {
        name: value.mean() + value.std(unbiased=False) * torch.randn(value.shape, generator=numbers)
        for name, value in make("float32").model.named_parameters()
    }


def rows_of(contexts: list[list[int]], answer: list[tuple[list[int], list[float]]]) -> list[tuple[list[int], list[int]]]:
    return [(context, tokens) for context, (tokens, _) in zip(contexts, answer, strict=True)]


def lines(file: Path) -> Iterator[dict[str, Any]]:
    if file.exists():
        yield from map(json.loads, file.read_text().splitlines())


def trials(rounds: list[dict[str, Any]], seed: int = 0) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """The rows of each canary: `ROWS` of a round."""
    numbers = random.Random(seed)
    for i in range(TRIALS):
        found = rounds[i % len(rounds)]
        yield found, numbers.sample(range(len(found["tokens"])), ROWS)


def picked(tokens: Any, engine: Any, trainer: Any, rows: list[int]) -> list[Answer]:
    return [Answer(tokens[i], engine[i], trainer[i]) for i in rows]


def report(out: Path) -> None:
    """Print statistics, and the share of trials in which the rule speaks."""
    for name in FORMATS:
        rounds = [row for row in lines(out) if row["format"] == name]
        if not rounds:
            continue
        limits = Limits.of(torch.float32 if name == "float32" else torch.bfloat16)
        print(f"{name}: {sum(len(row['tokens']) for row in rounds)} rows, limits {limits}")
        cases = ["trainer", *(f"temperature {t}" for t in TEMPERATURES), "seed", *(f"late {rate:g}" for rate in RATES)]
        for case in cases:
            shown = [Agreement.of(picked(row["tokens"], row["engine"], row[case], rows)) for row, rows in trials(rounds)]
            beyond = [not one.within(limits) for one in shown]
            still = [False] * len(beyond)
            if case.startswith("late"):
                # before: engine and trainer with the weights w; now: the engine is the same, and the trainer has moved
                still = [
                    stood_still(picked(row["tokens"], row["engine"], row["trainer"], r), picked(row["tokens"], row["engine"], row[case], r))
                    for row, r in trials(rounds)
                ]
            either = [a or b for a, b in zip(beyond, still, strict=True)]
            means, far = sorted(one.mean for one in shown), sorted(one.far for one in shown)
            print(
                f"  {case:16} mean {means[len(means) // 2]:.2g} (least {means[0]:.2g}, most {means[-1]:.2g}), far {far[len(far) // 2]:.1%} "
                f"(most {far[-1]:.1%}), largest {max(one.largest for one in shown):.2g}; beyond {share(beyond)}, still {share(still)}, "
                f"either {share(either)}"
            )
        for rate in RATES:
            key = f"after {rate:g}"
            wrongly = [
                stood_still(
                    picked(row["tokens"], row["engine"], row["trainer"], r),
                    picked(row[key]["tokens"], row[key]["engine"], row[key]["trainer"], r),
                )
                for row, r in trials(rounds)
            ]
            shown = [Agreement.of(picked(row[key]["tokens"], row[key]["engine"], row[key]["trainer"], r)) for row, r in trials(rounds)]
            beyond = [not one.within(limits) for one in shown]
            print(
                f"  healthy {key:10} beyond limits {share(beyond)}, still {share(wrongly)}, mean at most {max(o.mean for o in shown):.2g}"
            )


def share(found: list[bool]) -> str:
    return f"{sum(found)}/{len(found)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", help="a folder of a causal LM; none: a tiny policy with logits as large as those of real ones")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--rows", type=int, default=32, help="of a round")
    parser.add_argument("--out", type=Path, default=Path("runs/agreement.jsonl"))
    parser.add_argument("--report", action="store_true", help="of what the file has, and measure nothing")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if not options.report:

        def make(dtype: str) -> Policy:
            source = RealSizedPolicy(dtype=dtype) if options.policy is None else PretrainedPolicy(options.policy, dtype=dtype)  # type: ignore[arg-type]
            return source.build()

        measure(make, options.out, options.rounds, options.rows)
    report(options.out)


if __name__ == "__main__":
    main()
