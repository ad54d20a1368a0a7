"""Lines of `gpu_day.py` that ask the machine, or run a command that is there for itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._triton import has_triton

from benchmarks import config_file
from benchmarks.evidence.gpu_day_outcome import Day, Found, command

TESTS = ["tests/rollout", "tests/policy", "tests/training", "tests/strategies"]


def found(program: str) -> str | None:
    """Where a program is, in the environment of this Python or on the path."""
    return shutil.which(program, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def environment(day: Day) -> Found:
    """Compiler, Triton, bfloat16."""
    compiler = found("gcc") or found("clang") or ""
    said = Found({"compiler": compiler, "triton": has_triton(), "cores": os.cpu_count()})
    said.expect(bool(compiler), "there is no C compiler")
    if day.gpus:
        said.numbers |= {"capability": ".".join(map(str, torch.cuda.get_device_capability())), "bf16": torch.cuda.is_bf16_supported()}
        said.expect(has_triton(), "torch finds no Triton")
        said.expect(torch.cuda.is_bf16_supported(), "the device has no bfloat16")
    return said


def tests(day: Day) -> Found:
    """The tests of what computes."""
    text = command([sys.executable, "-m", "pytest", "-q", *TESTS], day.folder("tests") / "pytest.txt")
    return Found({"tests": _summary(text)})


def _summary(text: str) -> str:
    """The numbers of tests that pytest gives."""
    return next((line.strip("= ") for line in reversed(text.splitlines()) if re.search(r"\d+ (passed|skipped)", line)), "all passed")


def waits(day: Day) -> Found:
    """How often the host waits; on a CPU by tags in place of a device."""
    if not day.gpus:
        chosen = ["tests/training/test_device_waits.py", "-k", "GSPO or DPO or counted"]
        text = command([sys.executable, "-m", "pytest", "-q", "-n0", "-m", "", *chosen], day.folder("waits") / "pytest.txt")
        return Found({"tests": _summary(text)})
    return _cuda_waits()


def _cuda_waits() -> Found:
    """By the warnings of CUDA, over the second rollout of GRPO."""
    from lightning.pytorch import Callback
    from lightrl_workshop import InPlace, quiet_trainer

    from lightrl import DigitSorting, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine
    from lightrl.rollout.decode.incremental import IncrementalModel
    from lightrl.strategies.adapter import StrategyAdapter
    from lightrl.training.steps.learner import Learner

    label, counts, calls = ["rest"], Counter[str](), Counter[str]()

    def labelled(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        def named(*arguments: Any, **further: Any) -> Any:
            before, label[0] = label[0], name
            calls[name] += 1
            try:
                return inner(*arguments, **further)
            finally:
                label[0] = before

        return named

    class Second(Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            counts.clear()
            calls.clear()
            torch.cuda.set_sync_debug_mode("warn" if trainer.current_epoch == 0 else "default")

    def count(message: Any, *_: Any, **__: Any) -> None:
        counts[label[0]] += "synchronizing CUDA operation" in str(message)

    methods = [(IncrementalModel, "step"), (StrategyAdapter, "forward"), (StrategyAdapter, "backward"), (Learner, "step_on")]
    names = ["decode step", "micro-batch", "micro-batch", "optimizer step"]
    for name, (owner, method) in zip(names, methods, strict=True):
        setattr(owner, method, labelled(name, getattr(owner, method)))
    from lightrl_grpo import GRPO

    module = PolicyOptimization(
        TinyPolicy(hidden=64, layers=2, heads=2),
        GRPO(),
        {"start": InPlace()},
        TransformersEngine(64),
        prompts_per_rollout=8,
        micro_batch_tokens=256,
    )
    seen: dict[str, int] = {}
    finish = module.finish

    def finished(*arguments: Any) -> None:
        seen.update({name: counts[name] for name in set(names)} | {f"{name} calls": calls[name] for name in set(names)})
        finish(*arguments)

    module.finish = finished  # type: ignore[method-assign]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = count
        trainer = quiet_trainer(accelerator="gpu", max_epochs=2, num_sanity_val_steps=0, callbacks=[Second()])
        trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=64)))
    said = Found(dict(seen))
    said.expect(seen["decode step"] == 0, "the host waits in a decode step")
    said.expect(seen["micro-batch"] == 0, "the host waits in a micro-batch")
    said.expect(seen["optimizer step"] <= seen["optimizer step calls"], "the host waits more than once in an optimizer step")
    return said


def strategies(day: Day) -> Found:
    """`make parity`, on two GPUs or two processes of the CPU."""
    if day.gpus == 1:
        return Found({}, ["needs 2 GPUs, and there is one"])
    words: list[object] = [sys.executable, "-m", "benchmarks.evidence.parity", "--accelerator", day.accelerator]
    words += [] if day.gpus else ["--cases", "stopped", "--strategies", "ddp"]
    text = command(words, day.folder("strategies") / "parity.txt")
    differences = [float(number) for number in re.findall(r"\d\.\d\de-\d\d(?=\s+\d\.\de)", text)]
    return Found({"runs": len(differences), "largest_difference": max(differences, default=0.0)})


def vllm(day: Day) -> Found:
    """`make test WITH=vllm`."""
    files = ["plugins/lightrl-vllm/tests/test_vllm_contract.py", "plugins/lightrl-vllm/tests/test_vllm_engine.py"]
    words = [sys.executable, "-m", "pytest", "-n0", "-q", "-m", "", *files]
    text = command(words, day.folder("vllm") / "pytest.txt", LIGHTRL_REAL_VLLM="1")
    return Found({"tests": _summary(text)})


def speed(day: Day) -> Found:
    """`make bench CASE=gpu`; on a CPU that the benchmark runs."""
    out = day.folder("speed") / "gpu"
    words: list[object] = [sys.executable, "-m", "benchmarks.speed.gpu", "--out", out]
    command(words + ([] if day.gpus else ["--shape", "tiny", "--rounds", "1", "--sides", "lightrl"]), out.with_suffix(".txt"))
    sides = json.loads((out / "summary.json").read_text())["sides"]
    numbers = {f"{side} {name}": sum(run[name] for run in runs) / len(runs) for side, runs in sides.items() for name in runs[0]}
    said = Found(numbers)
    if day.gpus:
        ours, theirs = (numbers[f"{side} training_tokens_per_s"] for side in ("lightrl", "trl"))
        said.expect(ours >= 1.3 * theirs, f"training is {ours / theirs:.2f} times as fast as TRL")
    return said


def torchrun(day: Day) -> Found:
    """One rollout in two processes, and one more from its checkpoint."""
    folder = day.folder("torchrun")
    processes = min(day.gpus, 2) or 2
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", processes, "-m", "lightrl", "fit"]
    config = ["--config", config_file("grpo_sort"), "--model.policy", "TinyPolicy", "--data.validation_size", 0]
    trainer = ["--trainer.accelerator", day.accelerator, "--trainer.devices", processes, "--trainer.strategy", "ddp"]
    saved = ["--trainer.default_root_dir", folder, "--trainer.callbacks+=ModelCheckpoint", f"--trainer.callbacks.dirpath={folder}/saved"]
    saved += ["--trainer.callbacks.save_last=true", "--trainer.callbacks.save_on_train_epoch_end=true"]
    command([*start, *config, *trainer, *saved, "--rollouts", 1], folder / "first.txt")
    checkpoint = folder / "saved" / "last.ckpt"
    before = torch.load(checkpoint, weights_only=False)["global_step"]
    command([*start, *config, *trainer, *saved, "--rollouts", 2, "--ckpt_path", checkpoint], folder / "second.txt")
    after = torch.load(checkpoint, weights_only=False)["global_step"]
    said = Found({"processes": processes, "steps": before, "steps after the resume": after})
    said.expect(after == 2 * before > 0, f"{before} steps, and {after} after the resume")
    return said
