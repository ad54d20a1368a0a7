"""Mutations of a config: one change each, drawn by a seed and a number."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from lightrl.arguments import arguments_of, is_simple
from lightrl.config.describe.choice import Choice
from lightrl.config.describe.plain_values import as_yaml
from lightrl.config.merge.resolve import Resolved
from lightrl.kinds import KINDS
from lightrl.registry.classes import registry

EXTREMES: list[Any] = [
    0, -1, -7, 2**31, 2**63, 10**6, 10**400, 0.0, 0.5, -0.5, 1e-30, 1e-300, 1e30, 1e38, 1e300, -1e38, math.inf, -math.inf, math.nan,
]  # fmt: skip
OTHER_TYPES: list[Any] = [None, True, "text", "", "0", "1e-3", [], [1, 2], {}, {"a": 1}, "é\u0000\n", 3, 2.5, ["text"], [[0]]]
NEEDS_A_SERVICE = {"RayEngine", "SGLangEngine", "VLLMEngine", "JudgeScore", "JudgePair", "JudgePreference", "DatasetPrompts"}
"""Classes that are not swapped in: they would wait for servers, keys or downloads."""
ALONE = {"trainer.devices", "trainer.num_nodes", "trainer.strategy", "trainer.accelerator"}
"""Keys that get no moderate value: each mutation keeps to one process of training."""


@dataclass
class Mutation:
    """A config with one change."""

    config: str
    """The name of the config."""
    kind: str
    """What is done to it."""
    says: str
    """The key and what it was given."""
    tree: dict[str, Any]
    """The content of the config file."""
    words: list[str] = field(default_factory=list)
    """Further words of the command."""


@dataclass
class Subject:
    """A config, and every key that it could set."""

    name: str
    """Of the config."""
    tree: dict[str, Any]
    """Its content."""
    plain: dict[str, Any]
    """The value in force of each key that holds no part."""
    parts: dict[str, Choice]
    """The choice at each key that holds a part."""

    @classmethod
    def of(cls, name: str, tree: dict[str, Any], resolved: Resolved) -> Subject:
        """A config with the keys of all its parts and of the Trainer.

        Args:
            name: of the config.
            tree: its content.
            resolved: the same, resolved.
        """
        from lightning.pytorch import Trainer

        plain: dict[str, Any] = {"rollouts": 1, "seed_everything": 0}
        parts: dict[str, Choice] = {}
        for section, choice in (("model", resolved.model), ("data", resolved.data)):
            _collect(section, choice, plain, parts)
        plain |= {f"trainer.{a.name}": a.default for a in arguments_of(Trainer).values() if is_simple(a.slot.annotation)}
        return cls(name, tree, plain, parts)


def mutation(subjects: list[Subject], seed: int, index: int) -> Mutation:
    """The mutation with this number; the same numbers give the same one.

    Args:
        subjects: the configs to choose from.
        seed: of all mutations.
        index: of this one.
    """
    chance = random.Random(f"{seed}:{index}")
    subject, kind = chance.choice(subjects), chance.choices(list(KINDS_OF_MUTATION), [1, 1, 2, 4, 4, 4])[0]
    return KINDS_OF_MUTATION[kind](subject, chance)


def _drop(subject: Subject, chance: random.Random) -> Mutation:
    tree = copy.deepcopy(subject.tree)
    holder, key, path = chance.choice(list(_places(tree)))
    del holder[key]
    return Mutation(subject.name, "dropped", path, tree)


def _rename(subject: Subject, chance: random.Random) -> Mutation:
    tree = copy.deepcopy(subject.tree)
    holder, key, path = chance.choice(list(_places(tree)))
    at = chance.randrange(len(key))
    new = chance.choice([key[:at] + key[at + 1 :], key + "s", key[:at] + key[at] + key[at:], key.upper(), ""])
    holder[new] = holder.pop(key)
    return Mutation(subject.name, "renamed", f"{path} -> {new!r}", tree)


def _retype(subject: Subject, chance: random.Random) -> Mutation:
    tree = copy.deepcopy(subject.tree)
    value = copy.deepcopy(chance.choice(OTHER_TYPES))
    if chance.random() < 0.5:
        holder, key, path = chance.choice(list(_places(tree)))
        holder[key] = value
        return Mutation(subject.name, "retyped", f"{path} = {value!r}", tree)
    return _set(subject, "retyped", chance.choice([*subject.plain, *subject.parts]), value, chance)


def _extreme(subject: Subject, chance: random.Random) -> Mutation:
    numbers = [key for key, value in subject.plain.items() if value is None or _is_number(value)]
    return _set(subject, "extreme", chance.choice(numbers), chance.choice(EXTREMES), chance)


def _moderate(subject: Subject, chance: random.Random) -> Mutation:
    keys = [key for key, value in subject.plain.items() if key not in ALONE and (_is_number(value) or isinstance(value, bool))]
    key = chance.choice(keys)
    value = subject.plain[key]
    near = (
        [not value]
        if isinstance(value, bool)
        else [value * 2, value + 1, 1, 2] + ([value / 2, value * 1.1, 0.3] if isinstance(value, float) else [])
    )
    return _set(subject, "moderate", key, chance.choice(near), chance)


def _swap(subject: Subject, chance: random.Random) -> Mutation:
    key = chance.choice([key for key, choice in subject.parts.items() if choice.slot.kind is not None])
    kind = subject.parts[key].slot.kind if chance.random() < 0.7 else chance.choice(list(KINDS))
    names = [cls.__name__ for _, cls in registry().of_kind(str(kind)) if cls.__name__ not in NEEDS_A_SERVICE]
    return _set(subject, "swapped", key, chance.choice(names), chance)


KINDS_OF_MUTATION: dict[str, Callable[[Subject, random.Random], Mutation]] = {
    "dropped": _drop,
    "renamed": _rename,
    "retyped": _retype,
    "extreme": _extreme,
    "moderate": _moderate,
    "swapped": _swap,
}


def _set(subject: Subject, kind: str, key: str, value: Any, chance: random.Random) -> Mutation:
    """A key set on the command line, or by the config file."""
    says = f"{key} = {value!r:.60}"
    if chance.random() < 0.3 and not (isinstance(value, str) and not value.isprintable()):
        text = value if isinstance(value, str) else yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()
        return Mutation(subject.name, kind, f"--{says}", copy.deepcopy(subject.tree), [f"--{key}={text}"])
    tree = copy.deepcopy(subject.tree)
    node = tree
    *parents, last = key.split(".")
    for name in parents:
        node = _inside(node, name)
    (node["init_args"] if "class_path" in node else node)[last] = value
    return Mutation(subject.name, kind, says, tree)


def _inside(node: dict[str, Any], name: str) -> dict[str, Any]:
    """The mapping at a key; a class that was named alone gets room for its arguments."""
    if "class_path" in node:
        node = node.setdefault("init_args", {})
    value = node.get(name)
    if isinstance(value, str):
        node[name] = {"class_path": value, "init_args": {}}
    elif not isinstance(value, dict):
        node[name] = {}
    elif "class_path" in value:
        value.setdefault("init_args", {})
    found: dict[str, Any] = node[name]
    return found


def _places(tree: dict[str, Any], path: str = "") -> Iterator[tuple[dict[str, Any], str, str]]:
    """Every mapping and key, with the path of the key."""
    for key, value in list(tree.items()):
        where = f"{path}.{key}" if path else key
        yield tree, key, where
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                yield from _places(inner, where)


def _collect(key: str, value: object, plain: dict[str, Any], parts: dict[str, Choice]) -> None:
    if isinstance(value, dict):
        for name, member in value.items():
            _collect(f"{key}.{name}", member, plain, parts)
    elif isinstance(value, Choice):
        if "." in key:
            parts[key] = value
        for name, argument in value.takes.items():
            inner = value.value(name)
            if isinstance(inner, (Choice, dict)) and argument.slot.shape != "plain":
                _collect(f"{key}.{name}", inner, plain, parts)
            elif argument.slot.shape == "plain":
                plain[f"{key}.{name}"] = as_yaml(inner, argument.slot.annotation)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
