"""Tests that a run that is killed and resumed ends like an uninterrupted one: `python -m benchmarks.faults.killtest`, or `make killtest`.

`lightrl fit` runs once to its end. Then it is killed at random moments (in the middle of a completion, between minibatches, between
rollouts, while a checkpoint's files are opened, renamed, removed or half written, and by the clock) and resumed each time with
`--ckpt_path last`. Every rollout of every attempt must have the prompts, completions, rewards and logged numbers of the uninterrupted
run, and the final weights must be the same: bit for bit.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks import ROOT

KINDS = ("token", "minibatch", "file", "byte", "between", "clock")
EVERY = 2
"""Rollouts between two checkpoints."""
LIMIT_S = 240.0
"""Seconds that one attempt may take."""


EPISODES: dict[str, Any] = {
    "environment": {"class_path": "benchmarks.faults.killtest_parts.Chance", "init_args": {"max_turns": 3}},
    "engine": {"max_new_tokens": 8, "stop": list("012345")},
}
"""Turns end with one of six digits, so that many of them are answered."""
AHEAD: dict[str, Any] = {
    "rollouts_ahead": 1,
    "engine": {
        "class_path": "ProcessEngine",
        "init_args": {"engine": {"class_path": "TransformersEngine", "init_args": {"max_new_tokens": 8, "slice_rows": 4}}},
    },
}
"""A worker process makes the next rollout while the policy learns."""
CURRICULUM: dict[str, Any] = {"class_path": "EdgeSampler", "init_args": {"group_size": 4, "candidates": 2, "level": "source"}}
"""Remembers the success of each prompt and of each source of a mixture."""
MIXTURE: dict[str, Any] = {
    "class_path": "Mixture",
    "init_args": {
        "sources": {
            "short": {"class_path": "DigitSorting", "init_args": {"length": 4, "examples": 37}},
            "long": {"class_path": "DigitSorting", "init_args": {"examples": 23}},
        },
        "weights": {"short": 1, "long": {"start": 0, "end": 2, "prompts": 90}},
    },
}
"""Two sources, whose shares move."""
OF_CASE: dict[str, dict[str, Any]] = {"episodes": EPISODES, "ahead": AHEAD, "curriculum": AHEAD}
"""Settings of the model that a case has of its own."""


def config(case: str, rollouts: int) -> dict[str, Any]:
    """The run: 37 prompts, which no rollout divides, so that data epochs end in the middle of one."""
    two = case == "deepspeed_stage_2"
    algorithm: dict[str, Any] = {
        "epochs": 2,
        "minibatches": 2,
        "sampler": CURRICULUM if case == "curriculum" else {"class_path": "GroupSampler", "init_args": {"group_size": 4}},
        "kl": {
            "class_path": "KLPenalty",
            "init_args": {
                "loss_coefficient": 0.1,
                "controller": {"class_path": "AdaptiveKL", "init_args": {"target": 0.01, "horizon": 50}},
            },
        },
    }
    saving = {"every_n_epochs": EVERY, **({} if case == "ppo" else {"save_on_train_epoch_end": True, "save_last": True})}
    return {
        "rollouts": rollouts,
        "trainer": {
            "accelerator": "cpu",
            "devices": 2 if two else 1,
            "strategy": case if two else "auto",
            "enable_progress_bar": False,
            "enable_model_summary": False,
            # with a validation of its own a checkpoint is written after that, in the middle of an epoch of Lightning's
            "check_val_every_n_epoch": EVERY if case == "ppo" else 1,
            "callbacks": [
                {"class_path": "benchmarks.faults.killtest_parts.Witness"},
                {"class_path": "benchmarks.faults.killtest_parts.Fate"},
                {"class_path": "ModelCheckpoint", "init_args": saving},
            ],
        },
        "model": {
            "policy": {"class_path": "TinyPolicy", "init_args": {"hidden": 16, "layers": 1, "heads": 2}},
            "algorithm": {"class_path": "PPO" if case == "ppo" else "DCPO", "init_args": algorithm},
            "rewards": {"start": "benchmarks.faults.killtest_parts.InPlaceAndDigits"},
            **OF_CASE.get(case, {"engine": {"max_new_tokens": 8}}),
            "prompts_per_rollout": 6 if two else 5,
            "micro_batch_tokens": 128,
            "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 3e-3}},
            "lr_scheduler": {"class_path": "torch.optim.lr_scheduler.LinearLR", "init_args": {"start_factor": 0.1, "total_iters": 90}},
        },
        "data": {
            "train": MIXTURE
            if case == "curriculum"
            else {"class_path": "DigitSorting", "init_args": {"examples": 45 if case == "ppo" else 37}},
            "validation_size": 8 if case == "ppo" else 0,
        },
    }


CASES = {"dcpo": 20, "ppo": 8, "episodes": 10, "ahead": 10, "curriculum": 10, "deepspeed_stage_2": 20}
"""The runs, and how often each is killed: per-prompt statistics and an adaptive KL penalty; a critic, and checkpoints after validation;
episodes of several turns, whose environment runs in worker processes; rollouts made ahead by a worker process, and the same with a sampler
that remembers and a mixture whose weights move; two processes."""


def plan(kills: int, seed: int) -> list[dict[str, Any]]:
    """Where to kill: every kind in turn, its place by chance."""
    chance = random.Random(seed)
    kinds = [KINDS[i % len(KINDS)] for i in range(kills)]
    bounds = {"token": (1, 6), "minibatch": (1, 3), "file": (1, 6), "byte": (1, 60_000), "between": (1, 1), "clock": (1, 100)}
    return [{"kind": kind, "rollouts": chance.randint(1, 3), "event": chance.randint(*bounds[kind])} for kind in kinds]


class Runs:
    """Attempts at one run, in one folder."""

    def __init__(self, case: str, rollouts: int, folder: Path) -> None:
        """
        Args:
            case: one of `CASES`.
            rollouts: of the whole run.
            folder: for everything that is written.
        """
        self.case, self.folder = case, folder
        folder.mkdir()
        (folder / "run.yaml").write_text(yaml.safe_dump(config(case, rollouts)))

    def attempt(self, name: str, resume: bool, kill: dict[str, Any] | None) -> int:
        """Start or resume the run in a process group of its own; its exit status, negative for a signal."""
        words = ["fit", "--config", "run.yaml", *(["--ckpt_path", "last"] if resume else [])]
        said = {"KILLTEST_FOLDER": str(self.folder), "KILLTEST_ATTEMPT": name, "KILLTEST_KILL": json.dumps(kill or {})}
        first, clock = self.folder / f"{name}.rank0.jsonl", kill is not None and kill["kind"] == "clock"
        with (self.folder / f"{name}.log").open("wb") as log:
            pid = (launched if self.case.startswith("deep") else forked)(words, said, self.folder, log.fileno())
        return ended(pid, lambda: clock and first.exists(), kill["event"] / 200 if kill else 0.0)

    def seen(self, name: str) -> dict[int, dict[int, dict[str, Any]]]:
        """The witness of each rank about each finished rollout; a rank that was killed first may have none of the last."""
        found: dict[int, dict[int, dict[str, Any]]] = {}
        for file in sorted(self.folder.glob(f"{name}.rank*.jsonl")):
            rank = int(file.stem.rpartition("rank")[2])
            for line in file.read_text().splitlines():
                rollout = json.loads(line)
                found.setdefault(rollout.pop("rollout"), {})[rank] = rollout
        return found

    def weights(self, name: str) -> dict[str, torch.Tensor]:
        """The weights at the end."""
        return torch.load(self.folder / f"{name}.pt", weights_only=True)  # type: ignore[no-any-return]

    def words_of(self, name: str) -> str:
        """The end of what an attempt printed."""
        return "\n".join((self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-25:])


def forked(words: list[str], said: dict[str, str], folder: Path, log: int) -> int:
    """`lightrl` in a fork of this process, which has imported everything already; its number."""
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            os.setsid()
            os.chdir(folder)
            os.environ.update(said)
            os.dup2(log, 1)
            os.dup2(log, 2)
            from lightrl.cli import main

            status = main(words)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            sys.stdout.flush()
            os._exit(status)
    return pid


def launched(words: list[str], said: dict[str, str], folder: Path, log: int) -> int:
    """`python -m lightrl`, which starts a process for each rank; its number."""
    environment = {**os.environ, **said, "PYTHONPATH": str(ROOT), "MASTER_ADDR": "127.0.0.1"}
    run = subprocess.Popen(
        [sys.executable, "-m", "lightrl", *words], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
    )
    return run.pid


def ended(pid: int, running: Callable[[], bool], seconds: float) -> int:
    """Wait for the end of a process, or kill it; leave nothing of its group behind.

    Args:
        pid: of the process, which leads its group.
        running: the clock that kills starts to run.
        seconds: on that clock.
    """
    until, kill_at = time.monotonic() + LIMIT_S, float("inf")
    found, status = os.waitpid(pid, os.WNOHANG)
    while not found and time.monotonic() < min(until, kill_at):
        time.sleep(0.005)
        if running():
            kill_at = min(kill_at, time.monotonic() + seconds)
        found, status = os.waitpid(pid, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if not found:
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def killed_and_resumed(runs: Runs, kills: list[dict[str, Any]], differs: Callable[[str], list[str]]) -> int:
    """Kill as planned, resume to the end, print a line for each attempt; how many attempts were not as they should be."""
    wrong, finished, resumed = 0, 0, False
    for number, kill in enumerate([*kills, None]):
        name, started = f"attempt{number}", time.perf_counter()
        status = runs.attempt(name, resumed, kill)
        seen = runs.seen(name)
        problems = differs(name)
        if kill is None and status != 0:
            problems.append(f"the last attempt ended with {status}:\n{runs.words_of(name)}")
        elif kill is not None and status not in (-signal.SIGKILL, -signal.SIGXFSZ):
            problems.append(f"was to be killed, and ended with {status}:\n{runs.words_of(name)}")
        first = str(min(seen) if seen else "-") if resumed else "the start"
        finished = max([finished, *seen])
        where = "to the end" if kill is None else f"{kill['kind']} {kill['event']}" if kill["kind"] != "clock" else "clock"
        verdict, seconds = "DIFFERS" if problems else "same", time.perf_counter() - started
        print(
            f"{runs.case:<19}{number + 1:>4}  {where:<16}{'rollouts ' + span(seen):<16}{'from ' + first:<16}{verdict:<8}{seconds:>5.0f} s",
            flush=True,
        )
        print("".join(f"    {problem}\n" for problem in problems), end="")
        wrong += bool(problems)
        resumed = any(runs.folder.glob("runs/**/*.ckpt"))
    return wrong


def span(seen: dict[int, Any]) -> str:
    """First and last of the finished rollouts."""
    return f"{min(seen)}-{max(seen)}" if seen else "none"


def differences(runs: Runs, whole: dict[int, dict[int, dict[str, Any]]], tolerance: float) -> Callable[[str], list[str]]:
    """The checks of each attempt: everything that is not as in the uninterrupted run."""

    def differs(name: str) -> list[str]:
        return [
            f"rollout {rollout}, rank {rank}: {key} was {mine.get(key)} and in the uninterrupted run {theirs.get(key)}"
            for rollout, ranks in runs.seen(name).items()
            for rank, mine in ranks.items()
            for theirs in [whole[rollout][rank]]
            for key in sorted({*mine, *theirs})
            if not alike(mine.get(key), theirs.get(key), tolerance)
        ]

    return differs


def alike(mine: Any, theirs: Any, tolerance: float) -> bool:
    """Equal, numbers within the tolerance."""
    if mine == theirs or not tolerance or None in (mine, theirs):
        return bool(mine == theirs)
    if isinstance(theirs, list):
        return len(mine) == len(theirs) and all(alike(a, b, tolerance) for a, b in zip(mine, theirs, strict=True))
    try:
        return abs(float.fromhex(mine) - float.fromhex(theirs)) <= tolerance * max(1.0, abs(float.fromhex(theirs)))
    except ValueError:
        return False


def check(case: str, kills: int, rollouts: int, seed: int, folder: Path) -> int:
    """One case; how many attempts went wrong."""
    tolerance = 1e-6 if case.startswith("deep") else 0.0
    started = time.perf_counter()
    whole = Runs(case, rollouts, folder / f"{case}-whole")
    if whole.attempt("whole", False, None) != 0:
        sys.exit(f"{case}: the uninterrupted run failed:\n{whole.words_of('whole')}")
    print(
        f"{case:<19}{'':>4}  {'uninterrupted':<16}{'rollouts ' + span(whole.seen('whole')):<40}{time.perf_counter() - started:>5.0f} s",
        flush=True,
    )
    runs = Runs(case, rollouts, folder / f"{case}-killed")
    wrong = killed_and_resumed(runs, plan(kills, seed), differences(runs, whole.seen("whole"), tolerance))
    last = f"attempt{kills}"
    if not (runs.folder / f"{last}.pt").exists():
        return wrong + 1
    expected, found = whole.weights("whole"), runs.weights(last)
    difference = max(float((found[name] - weight).abs().max()) for name, weight in expected.items())
    counted = {rollout: ranks for n in range(kills + 1) for rollout, ranks in runs.seen(f"attempt{n}").items()}
    complete = sorted(counted) == list(range(rollouts))
    print(f"{case}: largest difference of a final weight {difference:g}; rollouts complete: {'yes' if complete else 'NO'}")
    return wrong + (difference > tolerance) + (not complete)


def import_once() -> None:
    """Import what a fork then need not import again."""
    from lightrl.registry.classes import registry

    registry()
    import lightrl.config.build.run
    import lightrl.training.online.policy_optimization  # noqa: F401
    from benchmarks.faults import killtest_parts  # noqa: F401


def main() -> int:
    """Run what was asked for; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="NAME", help=f"of: {', '.join(CASES)}")
    parser.add_argument("--kills", type=int, help="kills per case; by default 8 to 20")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--keep", type=Path, help="an empty folder in which everything that was written stays")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    import_once()
    started, wrong = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        print(f"{'case':<19}{'kill':>4}  {'where':<16}{'finished':<16}{'resumed':<16}{'':<8}{'':>7}")
        for case in arguments.cases:
            kills = arguments.kills or CASES[case]
            wrong += check(case, kills, 3 * kills + 8, arguments.seed, folder)
    print(f"{'all the same' if not wrong else f'{wrong} DIFFER'}, {time.perf_counter() - started:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
