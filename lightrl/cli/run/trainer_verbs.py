"""`lightrl fit | validate | test | predict`: resolve the config, build what it describes, and have the Trainer carry out the verb."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from importlib.metadata import version

from lightrl.config.build.checkpoints import tidy_runs, with_checkpoint
from lightrl.config.build.run import Run
from lightrl.config.build.trainer_section import TrainerSection
from lightrl.config.build.whole_config import config_yaml, print_verb_help
from lightrl.config.describe.class_help import print_class_help
from lightrl.config.merge.resolve import print_notes, resolve
from lightrl.config.read.settings import Request
from lightrl.versions import CUDA_MEMORY_VARIABLES, cuda_memory_variable


def prepared(verb: str, request: Request) -> Run | None:
    """The run that a verb of the Trainer starts; None: help or the config was wanted, and has been printed.

    ConfigError: the request cannot be carried out.
    """
    resolved = resolve(verb, request, complete=not (request.help_for or request.help))
    if request.help_for:
        print_class_help(verb, request.help_for, resolved.sections)
        return None
    if request.help:
        print_verb_help(verb, resolved)
        return None
    resolved = with_checkpoint(request, resolved)
    if request.print_config:
        print_notes(resolved.notes)
        sys.stdout.write(config_yaml(resolved, TrainerSection(verb, resolved)))
        return None
    let_segments_expand(os.environ, version("torch"))
    if verb == "fit":
        tidy_runs(request, resolved)
    run = Run(verb, resolved)
    # a refusal stands alone
    print_notes(resolved.notes)
    return run


def let_segments_expand(environment: MutableMapping[str, str], torch_version: str) -> None:
    """Let segments of memory grow, unless the user has said anything about CUDA's memory."""
    if not any(name in environment for name in CUDA_MEMORY_VARIABLES):
        # batches of changing lengths otherwise leave holes in the memory that no later one fits
        environment[cuda_memory_variable(torch_version)] = "expandable_segments:True"
