"""Prepares a case of `make bench` once, and runs it on either side in a process of its own."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks import ROOT, config_file
from benchmarks.demo_run import latest, logged_to, seeded
from benchmarks.speed import bench_lightrl as ours
from benchmarks.speed.bench_cases import EXAMPLES, LOGPROBS, REAL_CASES, ROLLOUTS
from benchmarks.speed.bench_policy import write_examples, write_policy, write_prompts
from benchmarks.speed.bench_real import write_real_data, write_real_policy

HERE = Path(__file__).parent
TRL, OWN = ROOT / "benchmarks" / "trl.txt", ROOT / "benchmarks" / "lightrl.txt"
SIDES = ("trl", "lightrl")
CASES = tuple(name for name in (*ROLLOUTS, "sort6", "logprobs", *EXAMPLES) if name not in REAL_CASES)


@dataclass(frozen=True)
class Bench:
    """Where measurements are written, and what runs them."""

    out: Path
    trl: Path
    """The environment of TRL."""
    own: Path
    """The environment of lightrl."""
    cores: frozenset[int]
    """On which the measured process runs."""
    model: Path = Path()
    """The GGUF file of the cases with a real policy."""

    @cached_property
    def code(self) -> str:
        """A hash of all that is measured: results of other code are not gone on with."""
        digest = hashlib.sha256()
        for file in sorted([*(ROOT / "lightrl").rglob("*.py"), *HERE.glob("bench_*.py"), TRL, OWN]):
            digest.update(file.read_bytes())
        digest.update(str(self.model).encode())
        return digest.hexdigest()

    def prepare(self, name: str, seed: int) -> tuple[Path, Path]:
        """Policy and data of a case, written if they are not there."""
        folder = self.out / name
        policy, data = folder / "policy", folder / "data.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        if name == "sort6":
            return self._sorted_start(seed)
        if name in REAL_CASES:
            return self._real_start(name)
        if not data.exists():
            if name in EXAMPLES:
                write_policy(policy, EXAMPLES[name].size, None)
                write_examples(data, EXAMPLES[name])
            elif name == "logprobs":
                write_policy(policy, str(LOGPROBS["size"]), None, int(LOGPROBS["vocabulary"]))
                data.write_text(json.dumps({"prompt": "1="}) + "\n")
            else:
                case = ROLLOUTS[name]
                write_policy(policy, case.size, case.mean_length, case.vocabulary)
                write_prompts(data, case)
        return policy, data

    def measure(self, name: str, side: str, round_number: int) -> dict[str, Any]:
        """Run a case on one side.

        Args:
            name: one of `CASES` or `REAL_CASES`.
            side: one of `SIDES`.
            round_number: counts the interleaved runs; also the seed, so that no side keeps the lengths and the order that it had once.

        Returns:
            What the meter wrote.
        """
        out = self.out / name / f"{side}-{round_number}"
        if self.measured(name, side, round_number):
            return self._found(out)
        policy, data = self.prepare(name, round_number)
        out.mkdir(parents=True, exist_ok=True)
        (out / "meter.json").unlink(missing_ok=True)
        cores, log, own = set(self.cores), out / "log.txt", self.own / "bin" / "python"
        if side == "trl":
            words = ["-m", "benchmarks.speed.bench_trl", name, policy, data, out, "--seed", round_number]
            ours.launch([str(self.trl / "bin" / "python"), *map(str, words)], log, cores)
        elif name == "logprobs":
            ours.launch([str(own), "-m", "benchmarks.speed.bench_lightrl", str(policy), str(out)], log, cores)
        elif name == "sort6":
            ours.run(own, ours.sort6_config(policy, data, out, round_number), out, cores)
        elif name in EXAMPLES:
            ours.run(own, ours.examples_config(EXAMPLES[name], policy, data, out, round_number), out, cores)
        else:
            ours.run(own, ours.rollout_config(ROLLOUTS[name], policy, data, out, round_number), out, cores)
        if name in REAL_CASES:
            # checkpoints of more than a GB each
            shutil.rmtree(out / "run", ignore_errors=True)
        (out / "code.txt").write_text(self.code)
        return self._found(out)

    def measured(self, name: str, side: str, round_number: int) -> bool:
        """Whether this run has been made already, with the code of today."""
        out = self.out / name / f"{side}-{round_number}"
        return (out / "code.txt").exists() and (out / "code.txt").read_text() == self.code

    def _found(self, out: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((out / "meter.json").read_text())
        return found

    def _real_start(self, name: str) -> tuple[Path, Path]:
        policy, data = self.out / "policies" / self.model.stem, self.out / name / "data.jsonl"
        if not policy.exists():
            write_real_policy(policy, self.model)
        if not data.exists():
            write_real_data(data, (ROLLOUTS | EXAMPLES)[name])
        return policy, data

    def _sorted_start(self, seed: int) -> tuple[Path, Path]:
        folder = self.out / "sort6" / f"sft-{seed}"
        if not folder.exists():
            words = ["fit", "--config", config_file("sft_sort"), *seeded(seed), *logged_to(folder)]
            ours.launch([sys.executable, "-m", "lightrl", *map(str, words)], self.out / "sort6" / f"sft-{seed}.txt", set(self.cores))
        data = folder / "data.jsonl"
        source = random.Random(seed)
        rows = ["".join(source.choices("0123456789", k=6)) for _ in range(20_000)]
        data.write_text("".join(json.dumps({"prompt": f"{row}=", "answer": "".join(sorted(row))}) + "\n" for row in rows))
        return latest(folder) / "policy", data
