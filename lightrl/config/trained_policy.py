"""The policy of a checkpoint, and the config of the run that wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightrl.config.building import Builder
from lightrl.config.errors import ConfigError
from lightrl.config.missing import refuse_missing_below
from lightrl.config.resolve import Resolved
from lightrl.policy.policy import Policy


def config_above(path: Path) -> str | None:
    """The last config that was written for the run of a checkpoint: a run that went on with other settings has several."""
    for folder in (path.parent, path.parent.parent):
        found = sorted(folder.glob("config*.yaml"), key=lambda file: (len(file.name), file.name))
        if found:
            return str(found[-1])
    return None


def path_given(resolved: Resolved) -> Path | None:
    """The checkpoint that `--ckpt_path` names, once `with_checkpoint` has seen to it; None if there is none."""
    words = [word.partition("=")[2] for word in resolved.trainer_words if word.startswith("--ckpt_path=")]
    return Path(words[-1]) if words else None


def trained_policy(resolved: Resolved, weights: dict[str, Any], path: Path) -> Policy:
    """The policy that the config describes, with the checkpoint's weights.

    Args:
        resolved: the config of the run.
        weights: of the checkpoint, by name.
        path: of the checkpoint, for messages.

    Raises:
        ConfigError: the config names no policy, or another one.
    """
    if "policy" not in resolved.model.arguments:
        raise ConfigError("model.policy", "not given, so nothing says what the weights belong to.", "Give the run's config: --config FILE")
    choice = resolved.model.value("policy")
    refuse_missing_below(choice, "model.policy")
    mine = {name.removeprefix("policy."): weight for name, weight in weights.items() if name.startswith("policy.")}
    source = Builder().build(choice, "model.policy")
    try:
        policy: Policy = resolved.model.cls.network(source.build())
        policy.load_state_dict(mine)
    except (ValueError, RuntimeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ConfigError(
            "",
            f"the policy in {str(path)!r} is not the one that the config describes: {' '.join(lines[:2])[:400]}",
            "Give the run's config.",
        ) from error
    return policy
