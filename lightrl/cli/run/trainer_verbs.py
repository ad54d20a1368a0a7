"""`lightrl fit | validate | test | predict`: resolve the config, build what it describes, and have the Trainer carry out the verb."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from importlib.metadata import version

from lightrl.config.merge.resolve import print_notes, resolve
from lightrl.config.read.settings import Request
from lightrl.versions import CUDA_MEMORY_VARIABLES, cuda_memory_variable


def carry_out(verb: str, request: Request) -> int:
    """Carry out one verb of Lightning's Trainer; 0 when it is done."""
    if request.help_for or request.help:
        return _help(verb, request)
    from lightrl.config.build.checkpoints import tidy_runs, with_checkpoint

    resolved = with_checkpoint(request, resolve(verb, request))
    if request.print_config:
        print_notes(resolved.notes)
        from lightrl.config.build.trainer_section import TrainerSection
        from lightrl.config.build.whole_config import config_yaml

        sys.stdout.write(config_yaml(resolved, TrainerSection(verb, resolved)))
        return 0
    let_segments_expand(os.environ, version("torch"))
    from lightrl.config.build.run import Run

    if verb == "fit":
        tidy_runs(request, resolved)
    try:
        run = Run(verb, resolved)
        # a refusal stands alone
        print_notes(resolved.notes)
        run.start()
    except SystemExit as end:
        if end.code not in (0, None):
            raise
    return 0


def _help(verb: str, request: Request) -> int:
    resolved = resolve(verb, request, complete=False)
    if request.help_for:
        from lightrl.config.describe.class_help import print_class_help

        print_class_help(verb, request.help_for, resolved.sections)
    else:
        from lightrl.config.build.whole_config import print_verb_help

        print_verb_help(verb, resolved)
    return 0


def let_segments_expand(environment: MutableMapping[str, str], torch_version: str) -> None:
    """Let segments of memory grow, unless the user has said anything about CUDA's memory."""
    if not any(name in environment for name in CUDA_MEMORY_VARIABLES):
        # batches of changing lengths otherwise leave holes in the memory that no later one fits
        environment[cuda_memory_variable(torch_version)] = "expandable_segments:True"
