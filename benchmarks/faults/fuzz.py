"""Tries mutated configs: `python -m benchmarks.faults.fuzz`, or `make bench CASE=fuzz`.

Keys of the configs of `configs/` are dropped, renamed, given another type or an extreme value, and classes are swapped between slots. Each
mutation is tried in a process of its own, forked from one that has everything imported: `lightrl check`, and if that accepts the config,
`lightrl fit` for one rollout, with a tiny policy and tiny data in place of paths.

A finding is a traceback, a hang (60 seconds of processor time, or 240 by the clock), or a config that `fit` refuses and `check` accepts.
Counts and findings are printed and written to `runs/fuzz/summary.json`, and the exit status is 1 if there is a finding or if, of fifty
mutations or more, fewer than a third has reached `fit`. A run that stops on purpose, since too many of its rows fail or no batch can be
filled, is counted and is no finding. `--only SEED:INDEX` tries one mutation alone and shows all that it prints.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.faults import fuzz_child
from benchmarks.faults.fuzz_child import Outcome, live
from benchmarks.faults.fuzz_configs import tiny_configs, write_inputs
from benchmarks.faults.fuzz_mutations import KINDS_OF_MUTATION, Mutation, Subject, mutation

WALL_S = 4 * fuzz_child.CPU_S
"""Seconds by the clock after which a mutation hangs."""
LEAST_FOR_A_SHARE = 50
"""Mutations; fewer reach `fit` more or less often by chance."""
SUMMARY = Path("runs/fuzz/summary.json")


@dataclass
class Trial:
    """A mutation that is being tried."""

    index: int
    mutation: Mutation
    folder: Path
    pid: int
    started: float = field(default_factory=time.monotonic)


def main() -> int:
    """Try the mutations; 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="mutations to try")
    parser.add_argument("--seed", type=int, default=0, help="of the mutations")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutation")
    parser.add_argument("--jobs", type=int, default=2, help="mutations tried at the same time")
    parser.add_argument("--only", metavar="SEED:INDEX", help="try one mutation, and show it with all that it prints")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        folder = Path(scratch)
        subjects = _subjects(folder)
        _warm()
        if options.only is not None:
            seed, index = map(int, options.only.split(":"))
            return _show(mutation(subjects, seed, index), folder)
        started = time.monotonic()
        indices = range(options.first, options.first + options.count)
        outcomes = _tried([(i, mutation(subjects, options.seed, i)) for i in indices], folder, options.jobs)
    return _report(outcomes, options.seed, time.monotonic() - started)


def _subjects(folder: Path) -> list[Subject]:
    from lightrl.config.merge.resolve import resolve
    from lightrl.config.read.settings import read_words

    write_inputs(folder)
    subjects = []
    for name, tree in tiny_configs(folder).items():
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(tree))
        subjects.append(Subject.of(name, tree, resolve("fit", read_words(["--config", str(file)]))))
    return subjects


def _warm() -> None:
    """Import what runs import, and nothing that starts a thread."""
    import lightning.pytorch.callbacks
    import peft
    import torch
    import transformers.models.llama.modeling_llama  # noqa: F401
    from torch.utils.tensorboard import SummaryWriter  # noqa: F401

    import lightrl.cli.run.check
    import lightrl.config.build.run  # noqa: F401

    torch.set_num_threads(1)
    del lightning, peft


def _tried(mutations: list[tuple[int, Mutation]], folder: Path, jobs: int) -> list[tuple[int, Mutation, Outcome]]:
    """The outcome of each mutation, in order."""
    waiting, running, done = mutations[::-1], list[Trial](), list[tuple[int, Mutation, Outcome]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(_begun(*waiting.pop(), folder))
        time.sleep(0.02)
        for trial in list(running):
            if (outcome := _ended(trial)) is not None:
                running.remove(trial)
                done.append((trial.index, trial.mutation, outcome))
                shutil.rmtree(trial.folder)
                if len(done) % 100 == 0:
                    print(f"{len(done)} of {len(mutations)}", flush=True)
                if outcome.finding:
                    print(
                        f"{trial.index}: {trial.mutation.config}, {trial.mutation.kind} {trial.mutation.says}: {outcome.finding}",
                        flush=True,
                    )
    return sorted(done, key=lambda one: one[0])


def _begun(index: int, mutated: Mutation, folder: Path) -> Trial:
    place = folder / str(index)
    place.mkdir()
    (place / f"{mutated.config}.yaml").write_text(yaml.safe_dump(mutated.tree, allow_unicode=True))
    pid = os.fork()
    if pid == 0:
        # a group of its own, so that all that it starts ends with it
        os.setsid()
        _to_file(place / "output.txt")
        live(mutated, place)
    return Trial(index, mutated, place, pid)


def _to_file(path: Path) -> None:
    output = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)


def _ended(trial: Trial) -> Outcome | None:
    """The outcome, if the process has ended or was ended here."""
    pid, status = os.waitpid(trial.pid, os.WNOHANG)
    hangs = pid == 0 and time.monotonic() - trial.started > WALL_S
    if pid == 0 and not hangs:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(trial.pid, signal.SIGKILL)
    if hangs:
        os.waitpid(trial.pid, 0)
    file = trial.folder / "outcome.json"
    outcome = Outcome(**json.loads(file.read_text())) if file.exists() else Outcome()
    how = f"hangs for {WALL_S} s" if hangs else _death(status)
    return Outcome(
        how if outcome.check == "killed" else outcome.check,
        how if outcome.fit == "killed" else outcome.fit,
        outcome.said or (trial.folder / "output.txt").read_text(errors="replace")[-2000:],
    )


def _death(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"hangs for {fuzz_child.CPU_S} s of processor time"
    return f"its process ended with {code}"


def _show(mutated: Mutation, folder: Path) -> int:
    """Try one mutation here, with all that it prints."""
    print(f"{mutated.config}, {mutated.kind}: {mutated.says}\n{yaml.safe_dump(mutated.tree)}{' '.join(mutated.words)}\n", flush=True)
    file = folder / f"{mutated.config}.yaml"
    file.write_text(yaml.safe_dump(mutated.tree, allow_unicode=True))
    pid = os.fork()
    if pid == 0:
        os.setsid()
        live(mutated, folder, loud=True)
    os.waitpid(pid, 0)
    outcome = json.loads((folder / "outcome.json").read_text()) if (folder / "outcome.json").exists() else {"check": "killed"}
    print(f"\ncheck: {outcome['check']}, fit: {outcome.get('fit')}\n{outcome.get('said', '')}")
    return int(bool(Outcome(**outcome).finding))


def _report(outcomes: list[tuple[int, Mutation, Outcome]], seed: int, seconds: float) -> int:
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS_OF_MUTATION}
    for _, mutated, outcome in outcomes:
        found = "findings" if outcome.finding else "refused" if outcome.check == "refused" else outcome.fit
        counts[mutated.kind].update({"tried": 1, found: 1, "tracebacks": "traceback" in (outcome.check, outcome.fit)})
    reached = sum(outcome.fit != "-" for _, _, outcome in outcomes)
    findings = [_finding(seed, *one) for one in outcomes if one[2].finding]
    summary: dict[str, Any] = {
        "seed": seed,
        "tried": len(outcomes),
        "reached fit": reached,
        "seconds": round(seconds),
        "by kind": {kind: dict(of_kind) for kind, of_kind in counts.items()},
        "findings": findings,
    }
    SUMMARY.parent.mkdir(parents=True, exist_ok=True)
    SUMMARY.write_text(json.dumps(summary, indent=2) + "\n")
    columns = ("tried", "refused", "ran", "stopped", "tracebacks", "findings")
    print(f"seed {seed}\n{'':<12}" + "".join(f"{name:>12}" for name in columns))
    for kind, of_kind in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        print(f"{kind:<12}" + "".join(f"{of_kind[name]:>12}" for name in columns))
    print(f"{reached} of {len(outcomes)} reached fit, in {seconds:.0f} s; {len(findings)} findings, see {SUMMARY}")
    if few := 4 * reached < len(outcomes) >= LEAST_FOR_A_SHARE:
        print("fewer than a quarter reached fit: the mutations are too wild to say much about it")
    return int(bool(findings) or few)


def _finding(seed: int, index: int, mutated: Mutation, outcome: Outcome) -> dict[str, str]:
    return {
        "repeat": f"python -m benchmarks.faults.fuzz --only {seed}:{index}",
        "config": mutated.config,
        "mutation": f"{mutated.kind}: {mutated.says}",
        "finding": outcome.finding,
        "said": outcome.said[-3000:],
    }


if __name__ == "__main__":
    sys.exit(main())
