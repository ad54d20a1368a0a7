"""Lines of `gpu_day.py` that train."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
import yaml
from lightning.pytorch import Callback
from lightrl_workshop import InPlace, quiet_trainer

from benchmarks import ROOT, config_file
from benchmarks.demo_run import latest, scalars
from benchmarks.evidence.gpu_day_decode import folder_of
from benchmarks.evidence.gpu_day_outcome import Day, Found, command
from benchmarks.faults import killtest
from benchmarks.speed import bench_lightrl as ours
from benchmarks.speed.gpu_cases import SHAPES
from lightrl import (
    DigitSorting,
    GroupRelative,
    GroupSampler,
    ModelSize,
    PolicyOptimization,
    ProcessEngine,
    Prompt,
    PromptData,
    RowReward,
    TinyPolicy,
    TransformersEngine,
    rank_memory,
)
from lightrl.callbacks.alarms import Alarms
from lightrl.workers import fork_server

SERVER = fork_server.__name__
"""In the command line of the processes that fork workers."""
SCORE = 1001.3
"""A reward that bfloat16 would round to 1000."""


class Large(RowReward):
    """A score that low precision rounds."""

    def score(self, prompt: Prompt, completion: str, **columns: object) -> float:
        return SCORE


def precisions(day: Day) -> Found:
    """Five rollouts in each precision."""
    said = Found()
    for precision in ("32-true", "bf16-mixed", "bf16-true"):
        policy = TinyPolicy(hidden=128, layers=4, heads=4, dtype="bfloat16" if precision == "bf16-true" else "float32")
        module = PolicyOptimization(
            policy,
            GroupRelative(sampler=GroupSampler(group_size=4)),
            {"start": InPlace(), "large": Large()},
            TransformersEngine(8),
            prompts_per_rollout=8,
        )
        alarms, log = Alarms(), Log()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            trainer = quiet_trainer(
                accelerator=day.accelerator, precision=precision, max_epochs=5, num_sanity_val_steps=0, callbacks=[alarms, log]
            )
            trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=64), validation_size=0))
        assert module.experience is not None
        arrived = module.experience.reward_parts["large"]
        largest = max(numbers["ratio/first_pass_deviation"] for numbers in log.numbers)
        said.numbers |= {f"{precision} first pass": largest, f"{precision} score": float(arrived[0])}
        exact = bool((arrived == torch.tensor(SCORE, dtype=torch.float32)).all())
        said.expect(exact, f"{precision}: a reward of {SCORE} arrives as {arrived[0]}")
        # a policy that has learnt nothing does raise others
        said.expect("first_pass_ratio" not in alarms.raised, f"{precision}: the alarm first_pass_ratio")
        own = [str(warning.message) for warning in warned if "lightrl" in warning.filename]
        said.expect(not own, f"{precision}: {own}")
        said.expect(precision != "32-true" or largest < 1e-4, f"32-true: the first pass deviates by {largest:.2g}")
    return said


class Log(Callback):
    """Keeps the numbers and the completions of every rollout, and kills a worker once if it is told to."""

    def __init__(self, kill_at: int | None = None) -> None:
        self.kill_at, self.numbers, self.completions = kill_at, list[dict[str, float]](), list[list[str]]()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self.numbers.append(pl_module.numbers)
        self.completions.append(pl_module.experience.completions)
        if len(self.numbers) == self.kill_at:
            os.kill(workers_of(os.getpid())[0], signal.SIGKILL)


def workers_of(process: int) -> list[int]:
    """The workers that lightrl's fork servers beneath a process have made.

    Other packages start processes too: where mpi4py is installed, Lightning looks for MPI, which starts `orted` and ends a process that
    loses it.
    """
    return [worker for child in _children(process) if SERVER in Path(f"/proc/{child}/cmdline").read_text() for worker in _children(child)]


def _children(process: int) -> list[int]:
    return [int(pid) for task in Path(f"/proc/{process}/task").glob("*/children") for pid in task.read_text().split()]


def workers(day: Day) -> Found:
    """An engine in a worker, on the second GPU if there is one, with and without a kill."""
    rollouts, found = (50 if day.gpus else 3), list[Log]()
    for kill_at in (None, 2):
        torch.manual_seed(0)
        device = None if not day.gpus else [f"cuda:{min(day.gpus, 2) - 1}"]
        module = PolicyOptimization(
            TinyPolicy(hidden=64, layers=2, heads=2, dtype="bfloat16" if day.gpus else "float32"),
            GroupRelative(sampler=GroupSampler(group_size=4)),
            {"start": InPlace()},
            ProcessEngine(TransformersEngine(8, slice_rows=16), devices=device),
            prompts_per_rollout=8,
        )
        found.append(Log(kill_at))
        trainer = quiet_trainer(accelerator=day.accelerator, max_epochs=rollouts, num_sanity_val_steps=0, callbacks=[found[-1]])
        trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=64), validation_size=0))
    whole, killed = found
    replaced = sum(numbers["engine/replaced_workers"] for numbers in killed.numbers)
    said = Found({"rollouts": len(killed.completions), "replaced_workers": replaced})
    said.expect(replaced == 1, f"{replaced:g} workers were replaced, and one was killed")
    said.expect(whole.completions == killed.completions, "the tokens after a kill are others")
    return said


def learning(day: Day) -> Found:
    """Grade-school word problems, for an hour or more."""
    folder = day.folder("learning")
    logger = "lightning.pytorch.loggers.TensorBoardLogger"
    settings = {
        "--config": config_file("grpo_gsm8k"),
        "--model.policy.path": day.policy,
        "--data.train.path": Path(day.data).absolute(),
        "--trainer.precision": "bf16-mixed",
        "--trainer.check_val_every_n_epoch": 50,
        "--trainer.logger": logger,
        "--trainer.logger.save_dir": folder,
        "--trainer.logger.name": "run",
        "--model.engine.max_new_tokens": 512,
        "--model.prompts_per_rollout": 64,
        "--model.algorithm.sampler.group_size": 8,
        "--model.micro_batch_tokens": "auto",
        "--data.validation_size": 256,
        "--rollouts": 100,
    }
    words = [word for pair in settings.items() for word in pair]
    command([sys.executable, "-m", "lightrl", "fit", *words], folder / "fit.txt")
    accuracy = scalars(latest(folder / "run"), "val/reward")
    said = Found({"before": accuracy[0], "after": accuracy[-1]})
    said.expect(accuracy[-1] >= accuracy[0] + 0.05, "held-out accuracy has not risen by 5 points")
    return said


def memory(day: Day) -> Found:
    """The peak of a run beside the estimate, and a pass that does not fit."""
    from transformers import AutoConfig, AutoModelForCausalLM

    from benchmarks.speed import gpu

    shape, folder = SHAPES["0.5B"], day.folder("memory")
    policy, prompts = folder_of(day, "memory"), folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": "1" * shape.prompt_tokens}) + "\n" for _ in range(512)))
    tokens = 8192
    config = gpu.config_of(shape, policy, prompts, folder / "run")
    config["model"]["micro_batch_tokens"] = tokens
    ours.run(Path(sys.executable), config, folder / "run", os.sched_getaffinity(0))
    peak = json.loads((folder / "run" / "meter.json").read_text())["peak_gb"]
    with torch.device("meta"):
        size = ModelSize.of(AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(policy)))
    positions = shape.prompt_tokens + shape.cap
    estimate = rank_memory(size, "auto", 1, "bf16-true", rows=shape.rows, positions=positions, micro_batch_tokens=tokens).peak / 1e9
    said = Found({"peak_gb": peak, "estimate_gb": estimate})
    said.expect(abs(peak - estimate) <= 0.2 * estimate, f"the estimate is off by {100 * (peak / estimate - 1):.0f} %")
    # rows so long that a forward pass of all of them cannot fit
    config["model"] |= {"micro_batch_tokens": None, "prompts_per_rollout": 16 * shape.prompts}
    try:
        ours.run(Path(sys.executable), config, folder / "refused", os.sched_getaffinity(0))
    except SystemExit as ended:
        said.expect("micro_batch_tokens" in str(ended), "the message about memory does not name model.micro_batch_tokens")
    return said


def sigterm(day: Day) -> Found:
    """A run of `make killtest` that is asked to end after three rollouts, and resumed."""
    folder, rollouts = day.folder("sigterm"), 8
    ends = {}
    for name in ("whole", "resumed"):
        place = folder / name
        place.mkdir()
        config = killtest.config("dcpo", rollouts)
        config["trainer"]["accelerator"] = day.accelerator
        (place / "run.yaml").write_text(yaml.safe_dump(config))
        status = _fit(place, "first", [], ends_at=None if name == "whole" else 3)
        if name == "resumed":
            _fit(place, "second", ["--ckpt_path", "last"], ends_at=None)
        ends[name] = torch.load(place / ("first.pt" if name == "whole" else "second.pt"), weights_only=True)
    apart = max(float((ends["whole"][name] - weight).abs().max()) for name, weight in ends["resumed"].items())
    said = Found({"status": status, "largest_difference": apart})
    said.expect(apart <= (1e-4 if day.gpus else 0.0), "the resumed run ends at other weights")
    return said


def _fit(folder: Path, attempt: str, further: list[str], ends_at: int | None) -> int:
    """One attempt; its exit status. With `ends_at` it is asked to end once so many rollouts are finished."""
    said = {"KILLTEST_FOLDER": str(folder), "KILLTEST_ATTEMPT": attempt, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "lightrl", "fit", "--config", "run.yaml", *further]
    seen, log = folder / f"{attempt}.rank0.jsonl", folder / f"{attempt}.txt"
    with log.open("w") as output:
        run = subprocess.Popen(words, cwd=folder, env=os.environ | said, stdout=output, stderr=subprocess.STDOUT)
        while ends_at is not None and run.poll() is None:
            if seen.exists() and len(seen.read_text().splitlines()) >= ends_at:
                run.send_signal(signal.SIGTERM)
                break
            time.sleep(0.05)
        status = run.wait()
    if status and ends_at is None:
        raise RuntimeError(f"{attempt} ended with {status}:\n{log.read_text()[-3000:]}")
    return status
