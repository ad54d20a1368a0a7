"""Teach a chat model to add by GRPO, and show what it says before and after.

    python examples/chat_demo.py --model SmolLM2-135M-Instruct.Q4_1.gguf --seed 0 --out runs/chat_demo

The sums of two digits from 1 to 9 are 45 pairs, 15 of which are held out: neither 3 + 8 nor 8 + 3 is trained on where one of them is
held out. The output folder gets the trained model as a plain folder, `policy`, the numbers in `summary.json` and the curve in `curve.png`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import random
import re
import time
import warnings
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from lightrl_grpo import GRPO

from lightrl import LoadedPolicy, PolicyOptimization, PretrainedPolicy, Prompt, PromptData, PromptSource, TransformersEngine
from lightrl.callbacks.export_policy import ExportPolicy
from lightrl.training.evaluating.evaluator import Evaluation
from lightrl.training.policy_module import NoDefaultCallbacks

ROLLOUTS, EVALUATE_EVERY, SHOWN = 20, 5, 6


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a GGUF file, a folder or a hub id of a chat model")
    parser.add_argument("--seed", type=int, default=0, help="of data order and sampling")
    parser.add_argument("--out", type=Path, default=Path("runs/chat_demo"), help="folder for the policy, the numbers and the curve")
    arguments = parser.parse_args()
    started = time.perf_counter()
    notes = train(PretrainedPolicy(arguments.model), arguments.seed, ROLLOUTS, arguments.out)
    report(notes, arguments.seed, arguments.out, time.perf_counter() - started)


def pairs() -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Two digits, the smaller one first: those to train on, and those held out; the same for every seed."""
    every = list(itertools.combinations_with_replacement(range(1, 10), 2))
    random.Random(0).shuffle(every)
    return every[15:], every[:15]


class Sums(PromptSource):
    """Some pairs as questions, in both orders."""

    def __init__(self, of: list[tuple[int, int]]) -> None:
        """
        Args:
            of: the pairs.
        """
        self.sums = sorted({order for a, b in of for order in ((a, b), (b, a))})

    @property
    def size(self) -> int:
        return len(self.sums)

    def prompt(self, index: int) -> Prompt:
        a, b = self.sums[index]
        question = f"What is {a} + {b}? Answer with only the number."
        return Prompt(id=f"{a} + {b}", messages=({"role": "user", "content": question},), answer=str(a + b))


def right(completion: str, answer: str) -> float:
    """1 if the last number is the sum."""
    return float(re.findall(r"\d+", completion)[-1:] == [answer])


class Notes(Callback):
    """Keeps what the run is about: rewards, held-out accuracy, and what was said."""

    def __init__(self) -> None:
        self.rewards: list[float] = []
        self.accuracy: list[tuple[int, float]] = []
        self.in_four: list[float] = []
        self.said: list[list[tuple[str, str]]] = []

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *arguments: object) -> None:
        """Called after each rollout."""
        self.rewards.append(float(pl_module.numbers["reward"]))
        print(f"rollout {len(self.rewards):>2}: {self.rewards[-1]:.2f} of its completions are right", flush=True)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Called after each evaluation, the first of which comes before the first rollout."""
        self.accuracy.append((len(self.rewards), float(trainer.callback_metrics["val/rewards/right/mean"])))
        self.in_four.append(float(trainer.callback_metrics["val/pass@4"]))
        samples: Any = pl_module.collector.samples
        rows = list(zip(samples.prompts, samples.completions, strict=True))
        apart = max(1, len(rows) // SHOWN)
        self.said.append([(prompt.id, completion) for prompt, completion in rows[::apart][:SHOWN]])
        print(
            f"held-out sums after {len(self.rewards)} rollouts: {self.accuracy[-1][1]:.1%} right, {self.in_four[-1]:.1%} in one of 4 tries",
            flush=True,
        )


def train(policy: PretrainedPolicy | LoadedPolicy, seed: int, rollouts: int, out: Path) -> Notes:
    """GRPO on the sums that are not held out.

    Args:
        policy: the source of a chat model.
        seed: of data order and sampling.
        rollouts: how many.
        out: the trained policy is written to the folder `policy` in it.
    """
    import torch

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    seed_everything(seed, verbose=False)
    trained, held_out = pairs()
    notes = Notes()
    module = PolicyOptimization(
        policy=policy,
        algorithm=GRPO(kl=None),
        rewards={"right": right},
        engine=TransformersEngine(max_new_tokens=12, seed=seed),
        prompts_per_rollout=6,
        micro_batch_tokens=1024,
        optimizer=lambda weights: torch.optim.AdamW(weights, lr=2e-5, weight_decay=0.0),
        evaluation=Evaluation(samples=4),
        seed=seed,
    )
    Trainer(
        max_epochs=rollouts,
        check_val_every_n_epoch=min(EVALUATE_EVERY, rollouts),
        accelerator="cpu",
        devices=1,
        num_sanity_val_steps=0,
        callbacks=[notes, ExportPolicy(str(out / "policy")), NoDefaultCallbacks()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(module, datamodule=PromptData(train=Sums(trained), validation=Sums(held_out), seed=seed))
    return notes


def report(notes: Notes, seed: int, out: Path, seconds: float) -> None:
    """Print accuracy and completions, before and after, and write the numbers and the curve."""
    (_, before), (rollouts, after) = notes.accuracy[0], notes.accuracy[-1]
    summary = {"seed": seed, "before": round(before, 4), "after": round(after, 4), "rollouts": rollouts, "seconds": round(seconds, 1)}
    (out / "summary.json").write_text(
        json.dumps(summary | {"accuracy": notes.accuracy, "in_four": notes.in_four, "rewards": notes.rewards}, indent=2) + "\n"
    )
    draw(notes, out / "curve.png")
    print()
    for (asked, first), (_, last) in zip(notes.said[0], notes.said[-1], strict=True):
        print(f"{asked}   before: {first.strip()!r}\n{' ' * len(asked)}   after:  {last.strip()!r}")
    print(f"\n{'seed':>4}  {'accuracy before':>15}  {'accuracy after':>14}  {'rollouts':>8}  {'seconds':>7}")
    print(f"{seed:>4}  {before:>15.3f}  {after:>14.3f}  {rollouts:>8}  {seconds:>7.1f}")
    print(f"(4 completions of each of {Sums(pairs()[1]).size} held-out sums, sampled at temperature 1)")
    print(f"\nPolicy: {out / 'policy'}   Curve: {out / 'curve.png'}")


def draw(notes: Notes, path: Path) -> None:
    """The reward of each rollout, and the held-out accuracy."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    axes.plot(range(1, len(notes.rewards) + 1), notes.rewards, color="tab:blue", alpha=0.8, label="training reward")
    axes.plot(*zip(*notes.accuracy, strict=True), "o-", color="tab:orange", label="held-out accuracy, neither order trained on")
    axes.set(xlabel="rollouts of 48 completions", ylabel="right", ylim=(0, 1.02), title="GRPO on sums, SmolLM2 with 135M parameters")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
