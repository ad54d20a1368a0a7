"""`lightrl fit | validate | test | predict`: resolve the config, then let Lightning run it."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from lightrl.cli.errors import ConfigError
from lightrl.cli.locate import refuse_bad_parts
from lightrl.cli.resolve import Resolved, print_notes, resolve
from lightrl.cli.settings import read_words
from lightrl.plugins.registry import registry

if TYPE_CHECKING:
    from lightrl.cli.lightning_cli import PolicyCLI


def run(verb: str, words: list[str]) -> int:
    """Carry out one verb of Lightning's Trainer; 0 when it is done.

    Raises:
        ConfigError: what was asked for cannot be carried out; nothing has been trained.
    """
    request = read_words(words)
    if request.help_for:
        from lightrl.cli.class_help import print_class_help

        return print_class_help(verb, request)
    if request.help:
        resolved = resolve(verb, request, complete=False)
        resolved.other.insert(0, "--help")
    else:
        from lightrl.cli.checkpoint import with_checkpoint

        resolved = with_checkpoint(request, resolve(verb, request))
        print_notes(resolved.notes)
    try:
        build(verb, resolved, run=True, print_config=request.print_config)
    except SystemExit as end:
        if end.code not in (0, None):
            raise
    return 0


def build(verb: str, resolved: Resolved, run: bool, print_config: bool = False) -> PolicyCLI:
    """The model, data and trainer of a config, and the run itself if that is wanted.

    Raises:
        ConfigError: something was refused before the first step.
    """
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    from lightrl.cli.lightning_cli import PolicyCLI

    try:
        return PolicyCLI(verb, resolved, run, print_config)
    except (ValueError, MisconfigurationException) as error:
        if not _is_refusal(error):
            raise
        refuse_bad_parts(resolved.model, "model")
        refuse_bad_parts(resolved.data, "data")
        raise ConfigError("", str(error)) from error


def _is_refusal(error: BaseException) -> bool:
    """The error was raised on purpose, by us, a plugin or Lightning's checks, before the first training step."""
    if isinstance(error, ValueError) and not _raised_by_ours(error):
        return False
    return not any(frame.name in ("advance", "training_step", "run_training_epoch") for frame in traceback.extract_tb(error.__traceback__))


def _raised_by_ours(error: BaseException) -> bool:
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    module = "" if frame is None else str(frame.tb_frame.f_globals.get("__name__", ""))
    ours = {"lightrl", *(cls.__module__.partition(".")[0] for r in registry().records for classes in r.classes.values() for cls in classes)}
    return module.partition(".")[0] in ours
