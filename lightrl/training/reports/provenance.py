"""The origin of a run: config, versions, plugins, ranks, prompts; compared when a checkpoint is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lightrl.registry.classes import registry
from lightrl.registry.distribution import CORE
from lightrl.types import JSON

PACKAGES = (CORE, "torch", "transformers", "lightning", "deepspeed", "peft")
"""Packages whose versions may change the numbers of a run."""
OF_THE_START = ("ckpt_path", "weights_only")
"""Keys of the config about the beginning of a run, which change nothing else of it."""
ABSENT = "-"
"""Shown for a key that one side does not have."""


def provenance_of(config: Mapping[str, Any] | None, ranks: int, order: Mapping[str, JSON] | None) -> dict[str, JSON]:
    """One flat mapping of JSON values.

    Args:
        config: resolved; None where no command line made one.
        ranks: processes that train.
        order: of the training prompts, from `PromptData.state_dict`.
    """
    found: dict[str, JSON] = {"ranks": ranks}
    found |= {f"version of {name}": _version(name) for name in PACKAGES}
    found |= {f"plugin {r.distribution}": r.version for r in registry().records if not r.error and r.distribution != CORE}
    found |= {f"data ({name})": value for name, value in (order or {}).items()}
    return found | {key: value for key, value in flat(config or {}).items() if key.split(".")[0] not in OF_THE_START}


def differences(then: Mapping[str, JSON], now: Mapping[str, JSON]) -> list[tuple[str, str, str]]:
    """Key, value then and value now of what differs, sorted; a plugin that is new changes nothing that the config does not say."""
    keys = [key for key in sorted({*then, *now}) if then.get(key, ABSENT) != now.get(key, ABSENT)]
    return [(key, str(then.get(key, ABSENT)), str(now.get(key, ABSENT))) for key in keys if key in then or not key.startswith("plugin ")]


def flat(tree: Mapping[str, Any], before: str = "") -> dict[str, JSON]:
    """A nested mapping with dots in its keys; lists stay values, and the levels `init_args` are passed over."""
    found: dict[str, JSON] = {}
    for name, value in tree.items():
        key = before if name == "init_args" and before else f"{before}.{name}" if before else str(name)
        found |= flat(value, key) if isinstance(value, Mapping) and value else {key: value}
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ABSENT
