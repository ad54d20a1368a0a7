"""`--help` of a verb: every key of model, data and trainer with its type and its docstring."""

from __future__ import annotations

import sys

from jsonargparse import set_parsing_settings

from lightrl.config.class_help import stated_ranges
from lightrl.config.resolve import Resolved
from lightrl.config.trainer_section import trainer_parser


def print_verb_help(verb: str, resolved: Resolved) -> None:
    """Print the help of a verb for the classes that a config chooses.

    Args:
        verb: fit, validate, test or predict.
        resolved: the config, possibly incomplete.
    """
    # fields of records are documented under themselves; reading that takes half a second, which only help is worth
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    try:
        parser = trainer_parser(verb, resolved.folder, resolved.name)
        if verb == "fit":
            parser.add_argument("--rollouts", type=int, help="Rollouts of the run, where the module makes them: one is an epoch.")
        for section, choice in (("model", resolved.model), ("data", resolved.data)):
            parser.add_class_arguments(choice.cls, section, fail_untyped=False)
        parser.print_help()
        sys.stdout.writelines(stated_ranges(choice.cls) for choice in (resolved.model, resolved.data))
    finally:
        set_parsing_settings(docstring_parse_attribute_docstrings=False)
