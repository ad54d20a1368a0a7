"""Lines of `gpu_day.py` about one policy: its decode steps, its attention, and how far decode and training are apart."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import torch
from lightrl_workshop import rollouts_with
from torch import Tensor

from benchmarks.evidence.gpu_day_outcome import Day, Found
from benchmarks.speed.bench_policy import digits
from benchmarks.speed.gpu_cases import SHAPES, write_shape
from lightrl import Policy, PretrainedPolicy, Prompt, Rollout, TinyPolicy, TransformersEngine

GREEDY = 32
"""Tokens that are compared between graphs and plain steps; in bfloat16 rounding can part them."""


def _policy(day: Day, line: str, dtype: str = "bfloat16") -> Policy:
    """That of the day, or one of half a billion random weights."""
    if day.policy:
        return PretrainedPolicy(day.policy, dtype=dtype).build().to(day.device)
    return PretrainedPolicy(str(folder_of(day, line)), dtype=dtype).build().to(day.device)


def _prompts(count: int, tokens: int) -> list[Prompt]:
    source = random.Random(0)
    return [Prompt(id=str(number), text=digits(tokens, source)) for number in range(count)]


def decode(day: Day) -> Found:
    """Milliseconds of a decoded token with CUDA graphs and without, their greedy tokens, and the memory that twenty rollouts reserve."""
    from lightrl.rollout.decode import step_choice

    policy, prompts, record = _policy(day, "decode"), _prompts(32, 64), step_choice.recorder_for
    said, tokens = Found(), dict[str, Tensor]()
    for name, recorder in (("graphs", record), ("plain", lambda model: None)):
        step_choice.recorder_for = recorder
        greedy = rollouts_with(policy, TransformersEngine(GREEDY, temperature=0.0)).rollout(prompts, 1)
        tokens[name] = greedy.input_ids[:, -GREEDY:]
        sampling, reserved = rollouts_with(policy, TransformersEngine(512)), list[float]()
        for _ in range(20 if name == "graphs" else 3):
            torch.cuda.synchronize()
            started = time.perf_counter()
            longest = int(sampling.rollout(prompts, 8).response_lengths.max())
            torch.cuda.synchronize()
            reserved.append(torch.cuda.memory_reserved() / 1e9)
            said.numbers[f"ms_a_token_{name}"] = 1e3 * (time.perf_counter() - started) / longest
        said.numbers[f"reserved_gb_{name}"] = reserved[-1]
        said.expect(len(reserved) < 4 or reserved[-1] <= 1.02 * reserved[2], f"reserved memory grows with {name}: {reserved}")
    step_choice.recorder_for = record
    said.numbers["greedy_tokens_alike"] = float((tokens["graphs"] == tokens["plain"]).double().mean())
    said.expect(said.numbers["greedy_tokens_alike"] > 0.9, f"the first {GREEDY} greedy tokens differ")
    said.expect(said.numbers["ms_a_token_graphs"] < 0.5 * said.numbers["ms_a_token_plain"], "graphs do not halve the time of a token")
    return said


def flex(day: Day) -> Found:
    """The compiled attention of packed rows against the plain one."""
    from torch._dynamo.utils import counters

    from lightrl.policy import packed_trunk

    policy, source = _policy(day, "flex"), torch.Generator().manual_seed(0)
    ids = torch.randint(2, policy.model.config.vocab_size, (16, 1000), generator=source)
    ids[:, :500] = ids[0, :500]
    mask = torch.arange(1000).expand(16, -1) >= 500

    def outcome() -> tuple[Tensor, Tensor]:
        policy.zero_grad()
        logprobs = policy(ids, mask).logprobs
        logprobs.sum().backward()
        gradients = [p.grad.float().flatten().cpu() for p in policy.parameters() if p.grad is not None]
        return logprobs.detach().float(), torch.cat(gradients)

    kernel, (compiled, ours) = packed_trunk._has_kernel, outcome()
    packed_trunk._has_kernel = lambda query: False
    plain, theirs = outcome()
    packed_trunk._has_kernel = kernel
    # half a billion products add up to more than float32 holds
    cosine = float(torch.nn.functional.cosine_similarity(ours.double(), theirs.double(), dim=0))
    apart = float((compiled - plain).abs().max() / plain.abs().max())
    before = counters["stats"]["unique_graphs"]
    for _ in range(200):
        rows, width = (int(torch.randint(low, high, (1,), generator=source)) for low, high in ((1, 9), (20, 900)))
        policy(ids[:rows, :width], mask[:rows, :width] | (torch.arange(width) == width - 1)).logprobs.sum().backward()
        policy.zero_grad()
    said = Found({"cosine": cosine, "apart": apart, "graphs": counters["stats"]["unique_graphs"] - before})
    said.expect(cosine > 0.999, "the gradients differ")
    said.expect(apart < 0.03, "the log-probs differ by more than 3 % of the largest")
    said.expect(said.numbers["graphs"] < 8, "it is compiled again and again")
    return said


def deviation(day: Day) -> Found:
    """Log-probs of decode against those of training, with the weights that sampled and with others."""
    said = Found()
    for dtype in ("float32", "bfloat16"):
        if day.gpus:
            policy, other = _policy(day, "deviation", dtype), _policy(day, "deviation", dtype)
            rows, cap = 96, 512
        else:
            policy, other = (_peaked(seed, dtype) for seed in (0, 0))
            rows, cap = 64, 32
        with torch.no_grad():
            for parameter in other.parameters():
                # an update of a hundredth of each weight's size: bfloat16 does not see a thousandth
                parameter.mul_(1 + 1e-2 * torch.randn_like(parameter).sign())
        rollout = rollouts_with(policy, TransformersEngine(cap)).rollout(_prompts(rows, 16), 1)
        apart = _apart(policy, rollout)
        said.numbers |= {f"{dtype}_{name}": number for name, number in apart.items()}
        said.numbers[f"{dtype}_late_mean"] = _apart(other, rollout)["mean"]
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.copy_(parameter[torch.randperm(len(parameter), device=parameter.device)])
        said.numbers[f"{dtype}_other_mean"] = _apart(other, rollout)["mean"]
        said.expect(apart["mean"] < (1e-4 if dtype == "float32" else 0.1), f"decode and training differ in {dtype}")
        said.expect(said.numbers[f"{dtype}_other_mean"] > max(0.2, 5 * apart["mean"]), f"other weights are not seen in {dtype}")
    return said


def _peaked(seed: int, dtype: str) -> Policy:
    """A tiny policy whose logits are as far apart as those of one that was trained."""
    policy = TinyPolicy(hidden=64, layers=4, heads=4, seed=seed).build()
    head = policy.model.get_output_embeddings()
    # a head of its own: one that is tied would say the last token again
    drawn = torch.randn(head.weight.shape, generator=torch.Generator().manual_seed(seed))
    head.weight = torch.nn.Parameter(3 * drawn / head.weight.shape[1] ** 0.5)
    policy.to(getattr(torch, dtype))
    return policy


@torch.no_grad()
def _apart(policy: Policy, rollout: Rollout) -> dict[str, Any]:
    """Of the log-probs of sampled tokens: tokens, mean, 99 % and largest absolute difference."""
    found = list[Tensor]()
    for row in range(0, len(rollout), 8):
        ids, mask = rollout.input_ids[row : row + 8], rollout.response_mask[row : row + 8]
        now = policy(ids, mask, rollout.temperature).logprobs.float().cpu()
        found.append((now - rollout.rollout_logprobs[row : row + 8]).abs()[mask])
    every = torch.cat(found)
    return {"tokens": len(every), "mean": float(every.mean()), "q99": float(every.quantile(0.99)), "max": float(every.max())}


def folder_of(day: Day, line: str) -> Path:
    """Where a policy of half a billion random weights is, written if it is not there."""
    folder = day.folder(line) / "policy"
    if not folder.exists():
        write_shape(folder, SHAPES["0.5B"])
    return folder
