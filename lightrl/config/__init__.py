"""From YAML files and the words of a command to objects, in four rooms, each of which knows only those before it.

1. `read`: `yaml_files` and `settings` read files and words, in the order in which they were given; `import_paths` finds what they would
   execute, `source_keys` what no class takes; `refusals` says what is wrong with a request.
2. `describe`: `class_lookup` finds classes by their names, `arguments` reads what they take, `plain_values` what a value may be, and
   `choice` holds a class with its arguments. `documentation`, `class_help` and `algorithms` show them to a person.
3. `merge`: `resolve` lays all settings over each other (`merger`) into choices for model and data and words for the Trainer
   (`trainer_keys`).
4. `build`: `builder` makes the objects, `trainer_section` the Trainer, and `run` carries out the verb; `whole_config` writes everything
   that is in force, `checkpoints` finds what a run goes on from.

The names below are for commands, those of other packages too:

    resolved = resolve("fit", read_words(["--config", "grpo_sort", "--rollouts", "3"]))
    rewards = Builder().value(resolved.model.value("rewards"), resolved.model.takes["rewards"].slot, "model.rewards")
"""

from __future__ import annotations

from lightrl.import_path import lazy_names

_HOMES = {
    "lightrl.config.read.refusals": ["ConfigError", "report"],
    "lightrl.config.read.settings": ["Request", "Setting", "read_words"],
    "lightrl.config.read.yaml_files": ["parse_yaml", "read_config"],
    "lightrl.arguments": ["Slot"],
    "lightrl.config.describe.algorithms": ["algorithm_named", "distribution_of", "registered", "stated_by"],
    "lightrl.config.describe.choice": ["Choice"],
    "lightrl.config.describe.documentation": ["documentation", "folding_table"],
    "lightrl.config.merge.merger": ["Merger"],
    "lightrl.config.merge.resolve": ["Resolved", "resolve"],
    "lightrl.config.read.source_keys": ["OF_TORCH"],
    "lightrl.config.build.builder": ["Builder"],
    "lightrl.config.build.checkpoints": ["checkpoint_and_config", "checkpoint_of", "trained_policy"],
    "lightrl.config.build.run": ["Run", "quiet_lightning"],
    "lightrl.config.build.trainer_section": ["TrainerSection"],
    "lightrl.registry.classes": ["closest"],
}
__getattr__ = lazy_names(__name__, {name: module for module, names in _HOMES.items() for name in names})
