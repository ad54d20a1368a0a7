"""The resolved config as YAML, as `--print_config` shows it and a run's folder keeps it; `--config` takes it again."""

from __future__ import annotations

from typing import Any

import yaml

from lightrl.config.class_lookup import top_level_class
from lightrl.config.resolve import Resolved
from lightrl.config.trainer_keys import OF_TORCH
from lightrl.config.trainer_section import TrainerSection


def config_yaml(resolved: Resolved, section: TrainerSection) -> str:
    """The config with every default.

    Args:
        resolved: gives `model` and `data`, whose classes are named unless they are the defaults.
        section: gives the rest.
    """
    around = section.as_config()
    epochs = around["trainer"].get("max_epochs")
    tree: dict[str, Any] = {}
    if "algorithm" in resolved.model.takes and epochs is not None:
        tree["rollouts"] = around["trainer"].pop("max_epochs")
    before = (*OF_TORCH, "trainer")
    tree |= {key: around[key] for key in before}
    for name, choice in (("model", resolved.model), ("data", resolved.data)):
        written = choice.as_config()
        tree[name] = written.get("init_args", {}) if choice.cls is top_level_class(name, None) else written
    tree |= {key: value for key, value in around.items() if key not in before}
    return yaml.dump(tree, Dumper=_WithoutAliases, sort_keys=False, allow_unicode=True)


class _WithoutAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True
