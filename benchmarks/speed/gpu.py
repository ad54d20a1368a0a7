"""Compares lightrl with TRL on a GPU, without and with vLLM: `python -m benchmarks.speed.gpu`, or `make bench CASE=gpu`.

GRPO on a policy of 0.5 billion random weights in bfloat16 (the shape of Qwen2.5-0.5B): 32 prompts of 256 tokens, 8 completions of 512
tokens each. Printed are real tokens per second of rollout and of training, the share of the device's arithmetic that they use (MFU),
and the peak of its memory. Runs alternate. TRL gets environments of its own; one of them has vLLM.

Without a GPU: `python -m benchmarks.speed.gpu --shape tiny --rounds 1 --sides lightrl` shows that the benchmark runs.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks import ROOT
from benchmarks.demo_run import write_summary
from benchmarks.peer_environment import make_environment
from benchmarks.speed import bench_lightrl as ours
from benchmarks.speed.bench_policy import digits
from benchmarks.speed.gpu_cases import LR, PEAK_TFLOPS, SHAPES, STEPS, WARM, Shape, write_shape

SIDES = ("lightrl", "trl", "trl_vllm")


def config_of(shape: Shape, policy: Path, prompts: Path, out: Path) -> dict[str, Any]:
    """GRPO of lightrl; what is not named here is the default."""
    trainer = {"max_epochs": STEPS + WARM, "check_val_every_n_epoch": STEPS + WARM + 1}
    config = ours.run_config(out, "benchmarks.speed.gpu_watch.DeviceWatch", trainer | {"accelerator": "auto", "precision": "bf16-true"})
    model = {
        "policy": ours.class_of("PretrainedPolicy", path=str(policy), dtype="bfloat16"),
        "algorithm": ours.grpo(shape.group, "SymmetricClip"),
        "rewards": {"noise": "benchmarks.speed.bench_reward.noise"},
        "engine": ours.class_of("TransformersEngine", max_new_tokens=shape.cap),
        "prompts_per_rollout": shape.prompts,
        "optimizer": ours.class_of(ours.ADAMW, lr=LR, weight_decay=0.0),
    }
    return config | {"model": model, "data": {"train": ours.class_of("JsonLines", path=str(prompts), answer=None, chat=False)}}


def measure(side: str, name: str, policy: Path, prompts: Path, out: Path) -> dict[str, Any]:
    """Run one side once, and give what its meter wrote."""
    out.mkdir(parents=True, exist_ok=True)
    cores = os.sched_getaffinity(0)
    if side == "lightrl":
        ours.run(Path(sys.executable), config_of(SHAPES[name], policy, prompts, out), out, cores)
    else:
        python = out.parent / f"{side}_environment" / "bin" / "python"
        words = [python, "-m", "benchmarks.speed.gpu_trl", name, policy, prompts, out, *(["--vllm"] if side == "trl_vllm" else [])]
        ours.launch(list(map(str, words)), out / "log.txt", cores)
    found: dict[str, Any] = json.loads((out / "meter.json").read_text())
    return found


def figures(shape: Shape, parameters: int, peak_tflops: float | None, found: dict[str, Any]) -> dict[str, float]:
    """Speeds and memory of one run.

    Args:
        shape: of the rollouts.
        parameters: of the policy.
        peak_tflops: of the device; None: not known.
        found: by the meter.
    """
    steps = found["steps"][WARM:]
    sampled = sum(step["tokens"] for step in steps)
    read = sampled + len(steps) * shape.rows * shape.prompt_tokens
    generating = sum(step["generate"] for step in steps)
    # the old log-probs of a peer are a forward pass too, and count as training
    training = sum(step["forward"] + step["backward"] + step["optimizer"] for step in steps)
    said = {
        "rollout_tokens_per_s": sampled / generating,
        "training_tokens_per_s": read / training,
        "tokens_per_s": sampled / sum(step["seconds"] for step in steps),
        "peak_gb": found["peak_gb"],
    }
    if peak_tflops is not None:
        # 2 FLOPs for each parameter and token forward, 4 backward; attention is left out, and prompts count once for each completion
        said["rollout_mfu"] = 2 * parameters * sampled / generating / (1e12 * peak_tflops)
        said["training_mfu"] = 6 * parameters * read / training / (1e12 * peak_tflops)
    return said


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """The sides as a table in Markdown: medians, with the least and the largest."""
    names = list(next(iter(found.values()))[0])
    lines = [f"| side | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for side, runs in found.items():
        cells = []
        for name in names:
            values = sorted(run[name] for run in runs)
            cells.append(f"{statistics.median(values):.4g} ({values[0]:.4g} to {values[-1]:.4g})")
        lines.append(f"| {side} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def device_peak() -> tuple[str, float | None]:
    """Name of the device, and its bfloat16 TFLOP/s if they are known."""
    if not torch.cuda.is_available():
        return "CPU", None
    name = torch.cuda.get_device_name()
    return name, next((float(peak) for part, peak in PEAK_TFLOPS.items() if part in name), None)


def main() -> int:
    """Measure, print, write; 1 if there is no GPU for a shape that needs one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="0.5B", help="of the policy")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--rounds", type=int, default=3, help="interleaved runs of each side")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), help="folder for everything that is written")
    arguments = parser.parse_args()
    if arguments.shape != "tiny" and not torch.cuda.is_available():
        print(f"torch sees no CUDA device, and {arguments.shape} would take hours without one: see --shape tiny")
        return 1
    shape, out = SHAPES[arguments.shape], arguments.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    device, peak = device_peak()
    print(f"{device}: {arguments.shape}, {asdict(shape)}", flush=True)
    for side in set(arguments.sides) - {"lightrl"}:
        make_environment(out / f"{side}_environment", ROOT / "benchmarks" / f"{side}.txt")
    prompts, source = out / "prompts.jsonl", random.Random(0)
    prompts.write_text("".join(json.dumps({"prompt": digits(shape.prompt_tokens, source)}) + "\n" for _ in range(4096)))
    parameters = write_shape(out / "policy", shape)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in arguments.sides}
    for number in range(arguments.rounds):
        for side in arguments.sides if number % 2 else reversed(arguments.sides):
            run = measure(side, arguments.shape, out / "policy", prompts, out / f"{side}-{number}")
            found[side].append(figures(shape, parameters, peak, run))
            print(f"round {number + 1}: {side}: {found[side][-1]['tokens_per_s']:.4g} tokens a second", flush=True)
    write_summary(out, {"device": device, "shape": arguments.shape, "parameters": parameters, "rounds": arguments.rounds, "sides": found})
    (out / "table.md").write_text(table(found))
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
