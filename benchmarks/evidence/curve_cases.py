"""What `make bench CASE=curves` gives both sides of its comparison; imported by either, so that it knows neither framework."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

DIGITS, TRAIN, HELD_OUT = 6, 4_000, 512
"""Of a prompt; prompts to learn from, in the order in which both sides read them; prompts of the evaluation."""
SEEDS, MORE_SEEDS = 5, 26
"""Runs of each side: of most methods, and of those whose small difference is to be explained."""
CAP = 8
"""Most tokens of a completion: six digits and EOS are seven."""
BETAS, EPS = (0.9, 0.999), 1e-8
"""Of AdamW, without weight decay; the rate is constant."""
MAX_GRAD_NORM = 1.0
Curves = dict[str, list[tuple[int, float]]]
"""By name: values, each with the completions or examples that had been seen before it."""


@dataclass(frozen=True)
class Online:
    """A method that learns from its own completions; its curve is the mean reward of each rollout."""

    name: str
    steps: int
    """Optimizer steps of a rollout, each on its part of the completions."""
    rate: float
    rollouts: int = 60
    prompts: int = 32
    group: int = 8
    clip: float = 0.2
    kind: str = ""
    """What both sides call it, if its name is longer."""
    whole_groups: bool = False
    """TRL too puts whole groups into each optimizer step."""
    replayed: bool = False
    """lightrl learns from the completions that TRL has sampled; the curve is the norm of the gradient of each rollout."""
    seeds: int = SEEDS
    """Runs of each side, with the seeds 0, 1, 2 and so on."""

    @property
    def algorithm(self) -> str:
        """`grpo` or `rloo`."""
        return self.kind or self.name

    @property
    def rows(self) -> int:
        """Completions of a rollout."""
        return self.prompts * self.group


@dataclass(frozen=True)
class Given:
    """A method that learns from given answers; its curves are numbers on held-out prompts."""

    name: str
    rate: float
    steps: int = 60
    batch: int = 64
    """Prompts of an optimizer step."""
    every: int = 5
    """Steps between two evaluations."""
    beta: float = 0.1
    """Of DPO."""
    seeds: int = SEEDS
    """Runs of each side, with the seeds 0, 1, 2 and so on."""


METHODS: dict[str, Online | Given] = {
    method.name: method
    for method in (
        Online("grpo", steps=2, rate=5e-4, seeds=MORE_SEEDS),
        Online("rloo", steps=1, rate=5e-4),
        # the first one with the split of a rollout that lightrl makes on both sides, and without any split
        Online("grpo_whole_groups", steps=2, rate=5e-4, kind="grpo", whole_groups=True, seeds=MORE_SEEDS),
        Online("grpo_one_step", steps=1, rate=5e-4, kind="grpo"),
        # without chance: steps that differ show here; over more rollouts rounding errors grow and hide what causes what
        Online("grpo_same_completions", steps=1, rate=5e-4, rollouts=15, kind="grpo", replayed=True),
        Given("dpo", rate=3e-4),
        Given("reward_model", rate=1e-3),
        Given("sft", rate=5e-4),
    )
}
NUMBERS: dict[str, dict[str, str]] = {
    "grpo": {"reward": "mean reward"},
    "rloo": {"reward": "mean reward"},
    "grpo_whole_groups": {"reward": "mean reward"},
    "grpo_one_step": {"reward": "mean reward"},
    "grpo_same_completions": {"grad_norm": "norm of the gradient"},
    "dpo": {"accuracy": "accuracy on held-out pairs", "margin": "margin on held-out pairs"},
    "reward_model": {"accuracy": "accuracy on held-out pairs", "margin": "margin on held-out pairs"},
    "sft": {"loss": "held-out loss"},
}
"""The curves of each method, in words."""
TITLES = {
    "grpo": "GRPO",
    "rloo": "RLOO",
    "grpo_whole_groups": "GRPO, whole groups",
    "grpo_one_step": "GRPO, one step per rollout",
    "grpo_same_completions": "GRPO, the same completions",
    "dpo": "DPO",
    "reward_model": "reward model",
    "sft": "supervised fine-tuning",
}
SIDES = ("lightrl", "trl")
WRITTEN = "curves.json"
"""The curves of a run, in its folder, once it is complete."""
SAMPLED = "sampled.json"
"""The completions of a run of TRL, in its folder: their tokens, rollout by rollout."""


def run_folder(out: Path, method: str, side: str, seed: int) -> Path:
    """The folder of a run of one side."""
    return out / f"{method}-{side}-{seed}"


def start_folder(out: Path, seed: int) -> Path:
    """The folder with the start and the data of a seed."""
    return out / f"start-{seed}"


def write_curves(folder: Path, found: Curves) -> None:
    """Write the curves of a run, whole or not at all."""
    unfinished = folder / "unfinished.json"
    unfinished.write_text(json.dumps(found))
    unfinished.replace(folder / WRITTEN)
