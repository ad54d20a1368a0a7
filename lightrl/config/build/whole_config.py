"""The whole config as a person reads it: with every default, as YAML that `--config` takes again, or as the help of a verb."""

from __future__ import annotations

import sys
from typing import Any

import yaml
from jsonargparse import set_parsing_settings

from lightrl.config.build.trainer_section import TrainerSection, trainer_parser
from lightrl.config.describe.class_help import stated_ranges
from lightrl.config.describe.class_lookup import top_level_class
from lightrl.config.merge.resolve import Resolved
from lightrl.config.read.source_keys import OF_TORCH


def config_yaml(resolved: Resolved, section: TrainerSection) -> str:
    """The config with every default, as `--print_config` shows it; classes of `model` and `data` are named unless they are the defaults."""
    around = section.as_config()
    epochs = around["trainer"].get("max_epochs")
    tree: dict[str, Any] = {}
    if "algorithm" in resolved.model.takes and epochs is not None:
        tree["rollouts"] = around["trainer"].pop("max_epochs")
    before = (*OF_TORCH, "trainer")
    tree |= {key: around[key] for key in before}
    for name, choice in resolved.sections.items():
        written = choice.as_config()
        tree[name] = written.get("init_args", {}) if choice.cls is top_level_class(name, None) else written
    tree |= {key: value for key, value in around.items() if key not in before}
    return yaml.dump(tree, Dumper=_WithoutAliases, sort_keys=False, allow_unicode=True)


class _WithoutAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def print_verb_help(verb: str, resolved: Resolved) -> None:
    """Print the help of a verb for the classes that a config chooses."""
    # fields of records are documented under themselves; reading that takes half a second, which only help is worth
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    try:
        parser = trainer_parser(verb, resolved.folder, resolved.name)
        if verb == "fit":
            parser.add_argument("--rollouts", type=int, help="Rollouts of the run, where the module makes them: one is an epoch.")
        for section, choice in resolved.sections.items():
            parser.add_class_arguments(choice.cls, section, fail_untyped=False)
        parser.print_help()
        sys.stdout.writelines(stated_ranges(choice.cls) for choice in resolved.sections.values())
    finally:
        set_parsing_settings(docstring_parse_attribute_docstrings=False)
