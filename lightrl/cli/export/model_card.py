"""The README.md of an exported policy or reward model: how to load it, what it was trained with, and what came of it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from lightrl import __version__
from lightrl.config.describe.algorithms import in_full, parts_in
from lightrl.config.describe.choice import Choice
from lightrl.config.merge.resolve import Resolved
from lightrl.data.files import DatasetPrompts

HELD_OUT = re.compile(r"val/(reward|rewards/.*/mean|avg@\d+|pass@\d+|maj@\d+|completions/mean_length|accuracy|margin|calibration/error)")
"""Metrics of held-out prompts that a card shows."""
SOME = ("reward", "reward_std", "kl", "entropy", "completions/mean_length", "completions/clipped_ratio", "loss")
"""Metrics of training that a card shows, where a run has them."""
PACKAGES = ("torch", "transformers", "peft", "lightning")


def model_card(resolved: Resolved, notes: dict[str, Any], name: str, adapters: bool) -> str:
    """The text of a model card."""
    model = resolved.model
    base = _base(model.value("policy"))
    product: str = model.cls.product
    task = "text-generation" if product == "policy" else "text-classification"
    head: dict[str, Any] = {"license": "unknown", "library_name": "peft" if adapters else "transformers", "pipeline_tag": task}
    if base is not None and _is_hub_id(base):
        head["base_model"] = base
    sets = [str(one.value("name")) for _, one in parts_in(resolved.data, "") if issubclass(one.cls, DatasetPrompts)]
    if names := [name for name in dict.fromkeys(sets) if _is_hub_id(name)]:
        head["datasets"] = names
    algorithm = model.value("algorithm") if "algorithm" in model.takes else None
    trainer = model.cls.__name__ if algorithm is None else algorithm.cls.__name__
    head["tags"] = ["lightrl", *(["reinforcement-learning"] if algorithm is not None else []), trainer.lower()]
    what = "The adapters of a policy" if adapters else f"A {product}"
    start = f", starting from `{base}`" if base is not None else ""
    parts = [
        f"---\n{yaml.safe_dump(head, sort_keys=False)}---",
        f"# {name}",
        f"{what} trained with {trainer} by lightrl {__version__}{start}. No licence is stated yet: it goes to the top of this file.",
        _usage(name, adapters, "AutoModelForCausalLM" if product == "policy" else "AutoModelForSequenceClassification"),
        "## Numbers\n\n" + _table(("number", "value"), _numbers(notes, "training steps" if algorithm is None else "rollouts")),
        "## Settings\n\n" + _table(("key", "value"), ((key, f"`{value}`") for key, value in _settings(resolved, algorithm))),
        "Versions: " + ", ".join(f"{package} {version(package)}" for package in PACKAGES) + ".",
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _usage(name: str, adapters: bool, auto: str) -> str:
    load = f'PeftModel.from_pretrained({auto}.from_pretrained("BASE"), "{name}")' if adapters else f'{auto}.from_pretrained("{name}")'
    imports = f"from transformers import {auto}, AutoTokenizer" + ("\nfrom peft import PeftModel" if adapters else "")
    return f'```python\n{imports}\n\nmodel = {load}\ntokenizer = AutoTokenizer.from_pretrained("{name}")\n```'


def _numbers(notes: dict[str, Any], rollouts: str) -> Iterable[tuple[str, str]]:
    run: dict[str, Any] = notes.get("run") or {}
    metrics = run.get("metrics", {})
    yield rollouts, str(run.get("steps", "not known"))
    yield "optimizer steps", f"{notes.get('global_step', 'not known')}"
    for key in [*filter(HELD_OUT.fullmatch, metrics), *(key for key in SOME if key in metrics)]:
        yield f"`{key}`", f"{metrics[key]:.4g}"
    yield "last step", str(run.get("date", "not known"))
    yield "exported", datetime.datetime.now(datetime.UTC).date().isoformat()


def _settings(resolved: Resolved, algorithm: Choice | None) -> Iterable[tuple[str, str]]:
    model = resolved.model
    rewards = (model.value("rewards") if "rewards" in model.takes else None) or {}
    if algorithm is not None:
        for name in algorithm.takes:
            yield f"algorithm.{name}", in_full(algorithm.value(name))
    yield from ((f"rewards.{name}", in_full(reward)) for name, reward in rewards.items())
    yield from ((name, in_full(model.value(name))) for name in model.takes if name not in ("algorithm", "rewards"))
    yield from ((f"data.{name}", in_full(resolved.data.value(name))) for name in resolved.data.takes)


def _base(policy: object) -> str | None:
    """The model that the policy's weights came from, if it has a name."""
    while isinstance(policy, Choice) and "base" in policy.takes:
        policy = policy.value("base")
    path = policy.value("path") if isinstance(policy, Choice) and "path" in policy.takes else None
    return None if path is None else str(path)


def _is_hub_id(name: str) -> bool:
    return name.count("/") == 1 and not Path(name).expanduser().exists()


def _table(titles: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {left} | {right.replace('|', chr(92) + '|')} |" for left, right in rows]
    return "\n".join([f"| {titles[0]} | {titles[1]} |", "|---|---|", *lines])
