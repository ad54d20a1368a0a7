"""The shorthand for rewards: the bare import path of a function stands for `Function` with that path."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from lightrl.config.choice import Choice
from lightrl.config.slots import Slot
from lightrl.parts.function import Function


def reward_in_full(slot: Slot, old: Choice | None, new: object, key: str) -> object:
    """The value with `Function` written out where the shorthand was used; anything else as it is.

    Args:
        slot: of the reward.
        old: the reward chosen under this name before.
        new: a class name, an import path, or a mapping.
        key: where it stands.
    """
    if isinstance(new, str) and "." in new and ":" not in new and not _is_class(new):
        return _function({"path": new})
    if isinstance(new, dict) and "class_path" not in new and "path" in new and not (old is not None and "path" in old.takes):
        return _function(new)
    return new


def _function(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"class_path": f"{Function.__module__}.{Function.__qualname__}", "init_args": arguments}


def _is_class(path: str) -> bool:
    module, _, name = path.rpartition(".")
    try:
        return inspect.isclass(getattr(importlib.import_module(module), name, None))
    except Exception:
        # Function says why, with the key, when it is built
        return False
