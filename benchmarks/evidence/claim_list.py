"""The published effects that benchmarks/evidence/claims.py looks for.

Each has its measure and threshold, which were written before its first run.
A side is a change to grpo_sort.yaml, or to another config. A claim compares two sides, which differ in one thing. The rungs of the
ladder are sides too: each has what the one before it has, and one mechanism more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

ROLLOUTS = 120
STEPS = 2
"""Optimizer steps per rollout, so that ratios leave 1 and clips can act."""
CLIP = {"class_path": "DecoupledClip", "init_args": {"low": 0.2, "high": 0.2}}
WIDER = {"class_path": "DecoupledClip", "init_args": {"low": 0.2, "high": 0.28}}
FEW_PROMPTS: dict[str, Any] = {"data": {"train": {"examples": 1216}}}
"""960 prompts to learn from, so that each is used four times."""


@dataclass(frozen=True)
class Side:
    """One of the settings that are compared."""

    algorithm: dict[str, Any] = field(default_factory=dict)
    """On top of the slots that all sides share."""
    rewards: dict[str, Any] | None = None
    """In place of the exact match alone."""
    other: dict[str, Any] = field(default_factory=dict)
    """Further sections of the config."""
    evaluation: dict[str, Any] | None = None
    """In place of one sample per held-out prompt after every tenth rollout: once, at the end."""
    config: str = "grpo_sort"
    """A key of `SHARED`."""
    start: str = "start"
    """A key of `STARTS`."""


STARTS: dict[str, list[str]] = {"start": [], "start of 16 digits": ["--data.train.length=16", "--model.engine.max_new_tokens=18"]}
"""The policies from which the sides of a seed start: options on top of sft_sort.yaml. Each is right on three prompts in ten."""
SHARED: dict[str, dict[str, Any]] = {
    "grpo_sort": {"algorithm": {"minibatches": STEPS, "clip": CLIP}, "lr_scheduler": {"total_steps": STEPS * ROLLOUTS}},
    "vapo_sort": {"algorithm": {"minibatches": STEPS}, "engine": {"max_new_tokens": 18}, "prompts_per_rollout": 32},
}
"""What all sides on a config have in its section `model`."""
LONG: dict[str, Any] = {"config": "vapo_sort", "start": "start of 16 digits", "other": {"data": {"train": {"length": 16}}}}
"""Answers of 17 tokens, the longest that five seeds can afford; a critic that is trained first has 10 of the 120 rollouts for itself."""
FIXED_LAMBDA = {"class_path": "GAE", "init_args": {"lam": 0.5}}
"""A reward reaches the first of 17 tokens times 0.5 ** 16; with the usual 0.95 that takes some 220 tokens. VAPO has 0.97 here."""

SIDES = {
    "grpo": Side(),
    "clip-higher": Side({"clip": WIDER}),
    "sequence mean": Side({"aggregation": "SequenceMean"}),
    "centred": Side({"advantage": "GroupCentered"}),
    "leave one out": Side({"advantage": "LeaveOneOut"}),
    "dynamic sampling": Side({"sampler": {"class_path": "DynamicSampler", "init_args": {"group_size": 8, "max_rounds": 20}}}),
    "sequence ratio": Side({"ratio": "SequenceRatio", "aggregation": "SequenceMean"}),
    "adaptive clip": Side({"clip": "DynamicAdaptiveClip"}),
    "few prompts": Side(other=FEW_PROMPTS),
    "smoothed, few prompts": Side({"advantage": "SmoothedAdvantage"}, other=FEW_PROMPTS),
    "overlong filtering": Side({"token_weight": "MaskTruncated"}),
    "soft punishment": Side(
        rewards={"correct": "ExactMatch", "overlong": {"class_path": "SoftOverlong", "init_args": {"max_length": 8, "cache": 1}}}
    ),
    "vapo": Side(**LONG),
    "ppo": Side(
        {"advantage": FIXED_LAMBDA, "critic": {"class_path": "ValueModel", "init_args": {"learning_rate": 0.002, "warmup_rollouts": 0}}},
        **LONG,
    ),
}
"""By name."""


def ladder() -> dict[str, Side]:
    """The rungs from GRPO to DAPO, each with what it adds to the one before it."""
    drawn = {"class_path": "DynamicSampler", "init_args": {"group_size": 8, "max_rounds": 20, "metric": "correct"}}
    added: dict[str, dict[str, Any]] = {
        "GRPO": {"aggregation": "SequenceMean"},
        "+ overlong filtering": SIDES["overlong filtering"].algorithm,
        "+ clip-higher": SIDES["clip-higher"].algorithm,
        "+ soft punishment": {},
        "+ token-level loss": {"aggregation": "TokenMean"},
        "+ dynamic sampling": {"sampler": drawn},
    }
    algorithm: dict[str, Any] = {}
    rewards = None
    rungs = {}
    for name, slots in added.items():
        algorithm = algorithm | slots
        rewards = SIDES["soft punishment"].rewards if name == "+ soft punishment" else rewards
        rungs[name] = Side(algorithm, rewards, evaluation={"samples": 32, "before_training": False})
    return rungs


LADDER = ladder()
"""The table of DAPO in small, from the bottom; the sides are those of the claims, one on top of the other."""


@dataclass(frozen=True)
class Claim:
    """A published effect, and when it counts as seen."""

    name: str
    """In the table."""
    effect: str
    """In words."""
    source: str
    """Where it was published."""
    side: str
    """That has the mechanism."""
    without: str
    """That differs in the mechanism alone."""
    measure: str
    """A function of benchmarks/evidence/claim_measures.py."""
    expected: Literal["higher", "lower", "factor"]
    """How the measure of the side compares; `factor`: the measure is that of the other one times `factor`."""
    threshold: float
    """Least mean difference as a share of the other side's mean; of a factor: the largest relative distance from it."""
    factor: float = 1.0


RUNG_HIGHER = 0.02
"""Least rise of avg@32 over the rung before that counts, as a share of it; the smallest published one is 1 of 41 points."""
DAPO, DCPO = "Yu et al. 2025, arXiv:2503.14476", "Yang et al. 2025, arXiv:2509.02333"
CLAIMS = [
    Claim("clip-higher", "keeps the entropy up", DAPO, "clip-higher", "grpo", "late_entropy", "higher", 0.1),
    Claim("token mean", "keeps wrong answers from growing", DAPO, "grpo", "sequence mean", "late_length_of_wrong", "lower", 0.02),
    Claim(
        "division by the group's deviation", "favours easy and hard prompts", "Liu et al. 2025, arXiv:2503.20783",
        "grpo", "centred", "weight_of_easy_and_hard", "higher", 0.1,
    ),
    Claim("dynamic sampling: steps", "needs fewer of them", DAPO, "dynamic sampling", "grpo", "steps_to_learn", "lower", 0.1),
    Claim("dynamic sampling: completions", "needs more of them", DAPO, "dynamic sampling", "grpo", "completions_to_learn", "higher", 0.1),
    Claim(
        "smoothed advantage", "raises the share of responses that carry gradient", DCPO,
        "smoothed, few prompts", "few prompts", "rows_with_gradient", "higher", 0.1,
    ),
    Claim("adaptive clip", "clips fewer tokens, by an order of magnitude", DCPO, "adaptive clip", "grpo", "clipped_tokens", "lower", 0.9),
    Claim(
        "sequence ratio", "varies less", "Zheng et al. 2025, arXiv:2507.18071",
        "sequence ratio", "sequence mean", "spread_of_ratio", "lower", 0.5,
    ),
    Claim("overlong filtering", "shortens runs that are cut off", DAPO, "overlong filtering", "grpo", "late_truncation", "lower", 0.1),
    Claim("soft punishment", "shortens runs that are cut off", DAPO, "soft punishment", "grpo", "late_truncation", "lower", 0.1),
    Claim(
        "leave one out", "is the centred advantage times G / (G - 1)", "Ahmadian et al. 2024, arXiv:2402.14740",
        "leave one out", "centred", "first_deviation_of_advantages", "factor", 1e-5, 8 / 7,
    ),
    Claim(
        "value pretraining and length-adaptive lambda", "help on long answers", "Yue et al. 2025, arXiv:2504.05118",
        "vapo", "ppo", "late_held_out", "higher", 0.1,
    ),
]  # fmt: skip
"""In the order of the table."""


def changes_of(side: Side, seed: int) -> dict[str, Any]:
    """What a run has on top of its config."""
    shared = SHARED[side.config]
    model = shared | {"algorithm": shared["algorithm"] | side.algorithm, "engine": shared.get("engine", {}) | {"seed": seed}, "seed": seed}
    if side.rewards is not None:
        model["rewards"] = side.rewards
    if side.evaluation is not None:
        model["evaluation"] = side.evaluation
    other = {name: dict(section) for name, section in side.other.items()}
    data = {"validation_size": 256, "seed": seed} | other.pop("data", {})
    trainer = {"check_val_every_n_epoch": 10 if side.evaluation is None else ROLLOUTS, "enable_checkpointing": False}
    return {"seed_everything": seed, "rollouts": ROLLOUTS, "trainer": trainer, "data": data, "model": model} | other
