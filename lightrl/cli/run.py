"""`lightrl fit | validate | test | predict`: resolve the config, then let Lightning run it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lightrl.cli.blame import from_checkpoint, raised_by_ours, refusal, was_training
from lightrl.cli.resolve import Resolved, print_notes, resolve
from lightrl.cli.settings import read_words

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
    from lightrl.cli.lightning_cli import PolicyCLI
    from lightrl.cli.quiet import quiet_lightning

    quiet_lightning()
    with with_refusals(resolved):
        return PolicyCLI(verb, resolved, run, print_config)


@contextmanager
def with_refusals(resolved: Resolved) -> Iterator[None]:
    """Within, what a part, lightrl or Lightning refuses on purpose before the first step becomes a short error with its key."""
    from lightning.fabric.utilities.exceptions import MisconfigurationException
    from lightning.fabric.utilities.rank_zero import rank_zero_only

    try:
        yield
    except (ValueError, MisconfigurationException) as error:
        on_purpose = isinstance(error, MisconfigurationException) or raised_by_ours(error)
        if was_training(error) or not on_purpose:
            raise
        if from_checkpoint(error) and getattr(rank_zero_only, "rank", None):
            # every rank reads the same and refuses it; one says so
            raise SystemExit(2) from error
        raise refusal(error, resolved) from error
