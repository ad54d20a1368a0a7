"""DeepSpeed's needs of the machine: its package, and a C++ compiler for the operators that it builds where it computes on CPUs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec


class DeepSpeedNeedsError(ValueError):
    """Something that DeepSpeed needs is not there; what, and what to type, in two lines."""


def refuse_without_deepspeed(what: str) -> None:
    """Refuse what only DeepSpeed can do where it is not installed; it is not imported.

    Args:
        what: what asks for it, with its key, as `trainer.strategy: deepspeed_stage_2`.

    Raises:
        DeepSpeedNeedsError: it is not installed.
    """
    if find_spec("deepspeed") is None:
        raise DeepSpeedNeedsError(
            f"{what} needs DeepSpeed, which is not installed here; only on Linux it comes with lightrl-core.\n"
            "Type: pip install deepspeed; or take another strategy, for example --trainer.strategy ddp or fsdp2"
        )


@contextmanager
def naming_a_missing_compiler() -> Iterator[None]:
    """Within, DeepSpeed may build operators; if it fails for want of a compiler, the error says so in place of torch's log of the build.

    Raises:
        DeepSpeedNeedsError: it failed, and there is no compiler.
    """
    try:
        yield
    except RuntimeError as error:
        # the name by which torch calls it
        compiler = os.environ.get("CXX", "c++")
        if shutil.which(compiler) is not None:
            raise
        raise DeepSpeedNeedsError(
            f"trainer.strategy: on CPUs DeepSpeed builds an operator with a C++ compiler, and there is no {compiler!r} on the path.\n"
            "Type: apt-get install g++ (or CXX=/path/to/compiler before the command); or --trainer.strategy ddp or fsdp2, which need none"
        ) from error
