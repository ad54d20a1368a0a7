"""Everything that wants a GPU, in one command: `python -m benchmarks.evidence.gpu_day`, or `make gpuday`.

Each line of the list runs in a process of its own, with a limit of time, and the next one follows whatever became of it. After each the
table is written anew, as `gpu_day.md` and `gpu_day.json` in the folder `--out`: device, versions, verdict and numbers. `--cpu` runs what
can run without a GPU, in at most three minutes of a core, and names the rest.

The line `learning` needs a policy and a file: `--policy FOLDER --data gsm8k_train.jsonl`.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from benchmarks.evidence import gpu_day_decode as decode
from benchmarks.evidence import gpu_day_machine as machine
from benchmarks.evidence import gpu_day_runs as runs
from benchmarks.evidence.gpu_day_outcome import Day, Found


@dataclass(frozen=True)
class Line:
    """One line of the list."""

    limit: str
    """What it is to show, in words."""
    measure: Callable[[Day], Found]
    minutes: float
    """After which it is ended."""
    gpus: int = 0
    """It cannot run with fewer; 0: it runs on a CPU too."""
    program: str | None = None
    """It needs this one on the path."""
    files: bool = False
    """It needs a policy and a data set."""

    def missing(self, day: Day) -> str | None:
        """Why it cannot run here; None: it can."""
        if self.gpus > day.gpus:
            return f"needs {'a GPU' if self.gpus == 1 else f'{self.gpus} GPUs'}"
        if self.program is not None and machine.found(self.program) is None:
            return f"there is no {self.program} on the path"
        if self.files and not (day.policy and day.data):
            return "needs --policy FOLDER and --data FILE"
        return None


LINES = {
    "environment": Line("a C compiler, Triton and bfloat16", machine.environment, 2),
    "tests": Line("green beside a GPU", machine.tests, 30, gpus=1),
    "precisions": Line(
        "5 rollouts in each precision: no warning, no alarm of the first pass (< 1e-4 in float32), a reward of 1001.3 arrives",
        runs.precisions,
        15,
    ),
    "decode": Line("CUDA graphs halve the time of a token, with the same tokens; memory flat", decode.decode, 20, gpus=1),
    "flex": Line("gradients' cosine with plain attention > 0.999; < 8 graphs over 200 micro-batches", decode.flex, 20, gpus=1),
    "waits": Line("0 in a decode step, 0 in a micro-batch, 1 in an optimizer step", machine.waits, 10),
    "deviation": Line("decode and training agree in the mean to 0.1, and other weights do not", decode.deviation, 15),
    "learning": Line("held-out accuracy rises by 5 points in 100 rollouts", runs.learning, 240, gpus=1, files=True),
    "memory": Line("within 20 % of the estimate of lightrl check; a refused allocation names the key", runs.memory, 30, gpus=1),
    "strategies": Line("every strategy gives the weights of one process", machine.strategies, 60),
    "workers": Line("a worker that is killed is replaced, and the tokens are the same", runs.workers, 15),
    "vllm": Line("the tests of lightrl-vllm against a real server", machine.vllm, 30, gpus=1, program="vllm"),
    "speed": Line("training >= 1.3 times as fast as TRL", machine.speed, 120),
    "torchrun": Line("two processes make a checkpoint, and go on from it", machine.torchrun, 15),
    "sigterm": Line("a run that is asked to end goes on to the numbers of an uninterrupted one", runs.sigterm, 15),
}
"""The list, in its order."""


@dataclass
class Row:
    """What became of a line."""

    name: str
    limit: str
    verdict: str
    """`passed`, `failed` or `not run`."""
    seconds: float = 0.0
    numbers: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    """What was not as it should be, or why it was not run."""


def run(name: str, day: Day) -> Row:
    """One line, in a process group of its own of which nothing is left."""
    line, started = LINES[name], time.monotonic()
    if (why := line.missing(day)) is not None:
        return Row(name, line.limit, "not run", wrong=[why])
    folder = Path(day.out) / name
    folder.mkdir(parents=True, exist_ok=True)
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    with (folder / "log.txt").open("w") as log:
        words = [sys.executable, "-m", __spec__.name, "--line", name, json.dumps(asdict(day))]
        child = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status: int | str = child.wait(timeout=60 * line.minutes)
        except subprocess.TimeoutExpired:
            status = f"{line.minutes:g} minutes were not enough"
        finally:
            _end(child)
    row = Row(name, line.limit, "failed", time.monotonic() - started)
    if result.exists():
        said = json.loads(result.read_text())
        row.numbers, row.wrong = said["numbers"], said["wrong"]
    elif status:
        row.wrong = [f"{status if isinstance(status, str) else f'status {status}'}, see {folder / 'log.txt'}"]
    row.verdict = "failed" if row.wrong else "passed"
    return row


def _end(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    child.wait()


def versions() -> dict[str, str]:
    """Of what the numbers depend on."""
    found = {"python": platform.python_version(), "cuda": str(torch.version.cuda)}
    for package in ("torch", "triton", "transformers", "lightning", "deepspeed", "vllm", "lightrl-core"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found


def table(device: str, rows: list[Row]) -> str:
    """The day as a page of Markdown."""
    head = f"# {device}\n\n{', '.join(f'{name} {number}' for name, number in versions().items())}\n\n"
    lines = ["| line | verdict | limit | numbers | seconds |", "|---|---|---|---|---|"]
    for row in rows:
        shown = {name: f"{number:.4g}" if isinstance(number, float) else number for name, number in row.numbers.items()}
        numbers = ", ".join(f"{name} {number}" for name, number in shown.items())
        verdict = row.verdict + "".join(f"; {why}" for why in row.wrong)
        lines.append(f"| {row.name} | {verdict} | {row.limit} | {numbers} | {row.seconds:.0f} |".replace("\n", " "))
    return head + "\n".join(lines) + "\n"


def write(day: Day, device: str, rows: list[Row]) -> None:
    """The table so far."""
    out = Path(day.out)
    (out / "gpu_day.md").write_text(table(device, rows))
    said = {"device": device, "versions": versions(), "lines": [asdict(row) for row in rows]}
    (out / "gpu_day.json").write_text(json.dumps(said, indent=2) + "\n")


def main() -> int:
    """Run what was asked for; 1 if a line has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="what can run without a GPU")
    parser.add_argument("--only", nargs="+", choices=LINES, default=list(LINES), metavar="NAME", help=f"of: {', '.join(LINES)}")
    parser.add_argument("--policy", default="", help="folder or hub id of a policy of half a billion parameters, for the line learning")
    parser.add_argument("--data", default="", help="file of grade-school word problems, as grpo_gsm8k.yaml reads it")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu_day"), help="folder for everything that is written")
    parser.add_argument("--line", nargs=2, metavar=("NAME", "DAY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.line:
        day = Day(**json.loads(arguments.line[1]))
        found = LINES[arguments.line[0]].measure(day)
        (Path(day.out) / arguments.line[0] / "result.json").write_text(json.dumps(asdict(found)))
        return 0
    gpus = 0 if arguments.cpu else torch.cuda.device_count()
    if not gpus and not arguments.cpu:
        print("torch sees no CUDA device: --cpu runs what can run without one")
        return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    day = Day(str(arguments.out.absolute()), gpus, arguments.policy, arguments.data)
    device = f"{gpus} x {torch.cuda.get_device_name()}" if gpus else "CPU"
    rows: list[Row] = []
    for name in arguments.only:
        rows.append(run(name, day))
        write(day, device, rows)
        print(f"{name:<14}{rows[-1].verdict:<10}{rows[-1].seconds:>6.0f} s  {'; '.join(rows[-1].wrong)}", flush=True)
    return int(any(row.verdict == "failed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
