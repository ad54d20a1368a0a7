"""From a resolved config to model, data and trainer; what is refused on the way becomes a short error with its key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lightrl.config.error_key import from_checkpoint, raised_by_ours, refusal, was_training
from lightrl.config.resolve import Resolved

if TYPE_CHECKING:
    from lightrl.config.lightning_cli import PolicyCLI


def build(verb: str, resolved: Resolved, run: bool, print_config: bool = False) -> PolicyCLI:
    """The model, data and trainer of a config, and the run itself if that is wanted.

    Raises:
        ConfigError: something was refused before the first step.
    """
    from lightrl.config.lightning_cli import PolicyCLI
    from lightrl.config.quiet_warnings import quiet_lightning

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
