"""A small run of every kind, for whatever device."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightrl_dapo import DAPO, DynamicSampler
from lightrl_dcpo import DCPO
from lightrl_distill import GKD
from lightrl_grpo import GRPO
from lightrl_gspo import GSPO
from lightrl_moe import ReplayedTokenRatio, RouterBalance, TinyMixture
from lightrl_ppo import PPO
from lightrl_preference import DPO, KTO, Unpaired
from lightrl_workshop import InPlace

from lightrl import (
    Algorithm,
    DigitSorting,
    Environment,
    FrozenReference,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    LoraPolicy,
    PolicyOptimization,
    PreferenceOptimization,
    Prompt,
    PromptData,
    PromptSource,
    RewardModeling,
    SingleTurn,
    SortedPairs,
    SupervisedFineTuning,
    Teacher,
    TinyPolicy,
    TransformersEngine,
    ValueModel,
)

sys.path.insert(0, str(Path(__file__).parent / "online"))
from digit_game import InlineDigitGame

Run = tuple[Any, PromptData]
GROUPS = GroupSampler(group_size=2)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


def tiny(seed: int = 0) -> TinyPolicy:
    return TinyPolicy(hidden=16, layers=1, heads=2, seed=seed)


def online(algorithm: Algorithm, policy: Any = None, environment: Environment | None = None, tokens: int = 12, **engine: Any) -> Run:
    """Rollouts of eight rows, which do not fit into one micro-batch."""
    module = PolicyOptimization(
        policy=policy or tiny(),
        algorithm=algorithm,
        rewards={"start": InPlace()} if environment is None else None,
        engine=TransformersEngine(max_new_tokens=tokens, **engine),
        environment=environment or SingleTurn(),
        prompts_per_rollout=4,
        micro_batch_tokens=48,
        optimizer=adamw,
    )
    return module, PromptData(train=DigitSorting(examples=60), validation_size=4)


class Ranked(PromptSource):
    """Questions with two or three answers, the longer the better."""

    size = 30

    def prompt(self, index: int) -> Prompt:
        answers = [str(index) * (n + 1) for n in range(2 + index % 2)]
        return Prompt(id=str(index), text=f"{index}?", columns={"completions": answers, "ranks": list(range(len(answers)))})


def offline(module: Callable[..., Any], train: PromptSource, **settings: Any) -> Run:
    return module(policy=tiny(), micro_batch_tokens=48, optimizer=adamw, batch_size=8, **settings), PromptData(train=train)


RUNS: dict[str, Callable[[], Run]] = {
    "GRPO": lambda: online(GRPO(sampler=GROUPS, kl=None), tokens=24),
    "GRPO, offloaded reference": lambda: online(GRPO(sampler=GROUPS, reference=FrozenReference(offload="cpu"))),
    "LoRA with KL": lambda: online(GRPO(sampler=GROUPS, kl=KLPenalty(loss_coefficient=0.1)), LoraPolicy(tiny(), r=4)),
    "PPO": lambda: online(PPO(sampler=GroupSampler(group_size=2), epochs=1)),
    "PPO, value model": lambda: online(PPO(sampler=GroupSampler(group_size=2), epochs=1, critic=ValueModel(extra_epochs=1))),
    "GSPO": lambda: online(GSPO(sampler=GROUPS, kl=None)),
    "DAPO": lambda: online(DAPO(sampler=DynamicSampler(group_size=2, max_rounds=2, exhausted="partial"))),
    "DCPO": lambda: online(DCPO(sampler=GROUPS)),
    "mixture of experts": lambda: online(
        GroupRelative(sampler=GROUPS, ratio=ReplayedTokenRatio(), balance=RouterBalance(0.1), old_logprobs="recompute"),
        TinyMixture(hidden=16, layers=1, heads=2, experts=4),
    ),
    "distillation": lambda: online(GKD(sampler=GROUPS, teacher=Teacher(tiny(seed=1)))),
    "environment": lambda: online(
        GRPO(sampler=GROUPS, kl=None), environment=InlineDigitGame(max_turns=2), tokens=6, stop=list("0123456789")
    ),
    "DPO": lambda: offline(PreferenceOptimization, SortedPairs(length=4, examples=40), objective=DPO()),
    "KTO": lambda: offline(PreferenceOptimization, Unpaired(SortedPairs(length=4, examples=20)), objective=KTO()),
    "SFT": lambda: offline(SupervisedFineTuning, DigitSorting(length=4, examples=40)),
    "reward model": lambda: offline(RewardModeling, Ranked()),
}
