"""Tests that every strategy gives the same weights: run `OMP_NUM_THREADS=1 python -m benchmarks.evidence.parity`, or `make parity`.

A small policy takes four optimizer steps, each of several micro-batches, with clipped ratios and gradients, on the same completions: with
a critic, a KL penalty and an entropy bonus, with dynamic sampling, with DCPO's statistics per prompt, with steps that stop_kl drops,
with a teacher, as a mixture of experts whose routes are replayed, and with rollouts that worker processes make ahead.
It does so with AdamW in one process, then on two processes under each strategy. AdamW's eps is 1e-2: with a small eps a gradient that is
twice as large makes the same step, and a wrong scale would not be noticed.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightrl_dapo import DynamicSampler
from lightrl_dcpo import DCPO
from lightrl_distill import GKD
from lightrl_moe import PretrainedMixture, ReplayedTokenRatio, RouterBalance, TinyMixture
from lightrl_workshop import FirstDigits, quiet_trainer

from benchmarks.logged_process import run_logged
from lightrl import (
    ActorCritic,
    Algorithm,
    DecoupledClip,
    DigitSorting,
    EntropyBonus,
    Environment,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    LoraPolicy,
    PeriodicReference,
    PolicyOptimization,
    PolicySource,
    PretrainedPolicy,
    ProcessEngine,
    Prompt,
    PromptData,
    Reply,
    Request,
    RolloutEngine,
    SingleTurn,
    Teacher,
    TinyPolicy,
    TransformersEngine,
    TurnGAE,
    ValueHead,
    ValueModel,
)
from lightrl.policy.weights import TrainerWeights

TOLERANCE = {"cpu": 1e-6, "gpu": 1e-5}
"""Largest difference of a weight, by accelerator."""
POLICY = "policy"
"""Name of the folder with the first policy."""
STRATEGIES = (
    "ddp",
    "deepspeed_stage_1",
    "deepspeed_stage_2",
    "deepspeed_stage_3",
    "deepspeed_stage_2_offload",
    "deepspeed_stage_3_offload",
    "fsdp2",
)


def actor_critic(**changes: Any) -> Algorithm:
    kl = KLPenalty(loss_coefficient=0.1)
    return ActorCritic(sampler=GroupSampler(group_size=4), clip=DecoupledClip(0.1, 0.1), kl=kl, entropy=EntropyBonus(0.01), **changes)


CASES: dict[str, Callable[[], Algorithm]] = {
    # a head on the policy's trunk, and a reference that moves
    "shared trunk": lambda: actor_critic(critic=ValueHead(learning_rate=2e-2), epochs=2, reference=PeriodicReference(every=2)),
    # a network beside the policy, which also takes steps of its own
    "critic alone": lambda: actor_critic(critic=ValueModel(learning_rate=2e-2, extra_epochs=1)),
    # adapters on a frozen base, which is the reference too
    "LoRA": lambda: actor_critic(critic=ValueHead(learning_rate=2e-2), epochs=2),
    # groups without signal leave, so that ranks train on unequal numbers of rows
    "dynamic": lambda: GroupRelative(sampler=DynamicSampler(group_size=4, max_rounds=1, exhausted="partial"), epochs=2),
    # the step that goes too far is dropped after its backward, and so are the rest of its rollout's
    "stopped": lambda: GroupRelative(sampler=GroupSampler(group_size=4), epochs=3, stop_kl=1e-3),
    # rows of several turns, with tokens of others between them, and a value for each turn
    "episodes": lambda: actor_critic(critic=ValueHead(learning_rate=2e-2), advantage=TurnGAE(), epochs=2),
    # statistics per prompt, which decide the second rollout's advantages
    "dcpo": lambda: DCPO(sampler=GroupSampler(group_size=4), epochs=2),
    # another policy, whose whole distribution is read at each token
    "teacher": lambda: GKD(sampler=GroupSampler(group_size=4), teacher=Teacher(tiny_policy("teacher", seed=1)), epochs=2),
    # the shares of experts are counted over all ranks, and the routes of the policy before the first step are forced
    "mixture": lambda: GroupRelative(
        sampler=GroupSampler(group_size=4), ratio=ReplayedTokenRatio(), balance=RouterBalance(0.1), epochs=2, old_logprobs="recompute"
    ),
    # a worker process for each rank, which makes the next rollout with the weights from before the last steps
    "ahead": lambda: GroupRelative(sampler=GroupSampler(group_size=4), epochs=2),
}
"""Algorithms, by what they put to the test."""


class Echo(Environment):
    """Says digits that depend on its seed and on what it was told, three times at most."""

    runs = "inline"

    def begin(self, prompt: Prompt, seed: int) -> str:
        self.chance = random.Random(seed)
        return prompt.text or ""

    def reply(self, completion: str) -> Reply:
        return Reply(f"{self.chance.randrange(10 ** self.chance.randrange(1, 4))}+{len(completion)}=", done=self.chance.random() < 0.2)


class FirstPolicyEngine(TransformersEngine):
    """Samples from the base policy as it was at the start, so that rounding in training changes no completion."""

    first: PolicySource

    def submit(self, requests: Sequence[Request]) -> None:
        # an evaluation samples the policy as it is now
        if all(request.sampling == self.sampling for request in requests):
            self._policy, self._model = self.first.build(), None
        super().submit(requests)


class Final(Callback):
    """Writes the gathered weights, those that an engine is given, the logged numbers and the answers of the final policy."""

    def __init__(self, file: Path) -> None:
        self.file, self.norms, self.answers = file, list[float](), list[str]()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.norms.append(float(trainer.logged_metrics["grad_norm"]))

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        everyone = pl_module.learner.adapter.gather(
            {p.id: c for p, c in zip(pl_module.collector.samples.prompts, pl_module.collector.samples.completions, strict=True)}
        )
        self.answers.append(str(sorted({**everyone[0], **everyone[-1]}.items())))

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        with pl_module.learner.adapter.gathered_weights():
            weights = {name: p.detach().clone() for name, p in pl_module.named_parameters()}
        given = TrainerWeights(pl_module.policy, pl_module.learner.adapter)
        weights |= {f"given to the engine: {name}": tensor.clone() for name, tensor in given.tensors()}
        if trainer.is_global_zero:
            torch.save({"weights": weights, "norms": self.norms, "answers": self.answers, "steps": trainer.global_step}, self.file)


def tiny_policy(case: str, seed: int = 0) -> TinyPolicy:
    sizes = {"hidden": 32, "layers": 2, "heads": 4, "seed": seed}
    return TinyMixture(**sizes, experts=4) if case == "mixture" else TinyPolicy(**sizes)


def engine(case: str) -> RolloutEngine:
    if case == "ahead":
        return ProcessEngine(TransformersEngine(max_new_tokens=8, slice_rows=16))
    sampled = FirstPolicyEngine(max_new_tokens=8, stop=list("012345") if case == "episodes" else None)
    sampled.first = tiny_policy(case)
    return sampled


def policy(case: str, folder: Path) -> PolicySource:
    """The first policy, from a folder: strategies that cut weights over ranks read each rank's share from there."""
    saved = PretrainedMixture(str(folder)) if case == "mixture" else PretrainedPolicy(str(folder))
    return LoraPolicy(saved, r=4) if case == "LoRA" else saved


def run(case: str, strategy: str, file: Path, accelerator: str) -> None:
    """Train under one strategy; called in a process of its own, which starts the second one."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = PolicyOptimization(
        policy=policy(case, file.parent / POLICY),
        algorithm=CASES[case](),
        rewards={"digits": FirstDigits()},
        engine=engine(case),
        environment=Echo(max_turns=3) if case == "episodes" else SingleTurn(),
        prompts_per_rollout=8,
        rollouts_ahead=int(case == "ahead"),
        micro_batch_tokens=48,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-2, eps=1e-2, weight_decay=0.1),
        max_grad_norm=0.2,
    )
    devices, rollouts = 1 if strategy == "auto" else 2, 3 if case == "ahead" else 2
    trainer = quiet_trainer(accelerator=accelerator, devices=devices, strategy=strategy, max_epochs=rollouts, callbacks=[Final(file)])
    configured: Any = getattr(trainer.strategy, "config", None)
    if configured is not None and configured["zero_optimization"]["stage"] == 3:
        # by default ZeRO-3 keeps small tensors whole, and all are small here
        configured["zero_optimization"]["stage3_param_persistence_threshold"] = 0
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=16), validation_size=8))


def main() -> int:
    """Run what was asked for; 1 if weights differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--strategies", nargs="+", choices=STRATEGIES, default=STRATEGIES, metavar="NAME", help=f"of: {', '.join(STRATEGIES)}"
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="NAME", help=f"of {list(CASES)}")
    parser.add_argument("--accelerator", choices=list(TOLERANCE), default="cpu", help="of all runs; gpu: two of them")
    parser.add_argument("--run", nargs=3, metavar=("CASE", "STRATEGY", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run(arguments.run[0], arguments.run[1], Path(arguments.run[2]), arguments.accelerator)
        return 0
    print(f"{'case':<14}{'strategy':<20}{'steps':>6}{'moved':>10}{'largest difference':>20}{'grad norm':>12}{'answers':>10}{'seconds':>9}")
    failed = 0
    for case in arguments.cases:
        with tempfile.TemporaryDirectory() as folder:
            tiny_policy(case).build().save(Path(folder) / POLICY)
            expected, _ = trained(case, "auto", Path(folder), arguments.accelerator)
            for strategy in arguments.strategies:
                failed += report(case, strategy, Path(folder), expected, arguments.accelerator)
    tolerance = TOLERANCE[arguments.accelerator]
    print("every strategy ends at the weights of one process" if not failed else f"{failed} DIFFER by more than {tolerance:g}")
    return int(failed > 0)


def trained(case: str, strategy: str, folder: Path, accelerator: str) -> tuple[dict[str, Any], float]:
    """The file that a run wrote, and its seconds."""
    file, started = folder / f"{strategy}.pt", time.perf_counter()
    run_logged(["-m", __spec__.name, "--run", case, strategy, file, "--accelerator", accelerator], folder / f"{strategy}.txt")
    return torch.load(file, weights_only=True), time.perf_counter() - started


def report(case: str, strategy: str, folder: Path, expected: dict[str, Any], accelerator: str) -> bool:
    """Train, and print one line; whether it fails."""
    found, seconds = trained(case, strategy, folder, accelerator)
    start = {name: p.detach() for name, p in policy(case, folder / POLICY).build().named_parameters()}
    moved = max(float((expected["weights"][f"policy.{name}"] - p).abs().max()) for name, p in start.items())
    difference = max(float((expected["weights"][name] - p).abs().max()) for name, p in found["weights"].items())
    norms = max(abs(a - b) for a, b in zip(expected["norms"], found["norms"], strict=True))
    same = all(found[what] == expected[what] for what in ("answers", "steps")) and found["weights"].keys() == expected["weights"].keys()
    line = f"{case:<14}{strategy:<20}{found['steps']:>6}{moved:>10.4f}{difference:>20.2e}{norms:>12.1e}{'same' if same else 'DIFFER':>10}"
    print(f"{line}{seconds:>9.0f}", flush=True)
    return not (difference <= TOLERANCE[accelerator] and norms <= TOLERANCE[accelerator] and same)


if __name__ == "__main__":
    sys.exit(main())
