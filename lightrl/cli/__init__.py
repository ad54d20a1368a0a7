"""The command line. Only what a command needs is imported, so that light commands answer at once."""

from __future__ import annotations

import errno
import os
import signal
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

from lightrl.config.read.refusals import ConfigError, report
from lightrl.ranks import local_rank
from lightrl.registry.classes import UnknownName
from lightrl.registry.known_packages import CORE, other_distribution
from lightrl.run_end import RunEndedError
from lightrl.strategies.disk import refusal_of_disk

if TYPE_CHECKING:
    from lightrl.registry.commands import Commands

ELSEWHERE = {
    "train": "fit --config FILE", "grpo": "fit --config grpo", "dpo": "fit --config dpo_sort", "sft": "fit --config sft_sort",
    "eval": "validate --config FILE", "resume": "fit --config FILE --ckpt_path last",
}  # fmt: skip
"""Verbs of other libraries, and what does the same here."""
NO_PATH = (errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM)
"""Errors of a path that somebody has typed."""
HELP = ("--help", "-h", "help")


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command and return its exit status.

    0; 1 if a run ends before its time or without an update, the disk refuses something, or the command's answer is that something is wrong;
    2 if the request was wrong; 130 after Ctrl-C. Refusals are at most three lines on stderr.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        with naming_slow_imports():
            return _dispatch(words)
    except (ConfigError, UnknownName) as error:
        return report(error if isinstance(error, ConfigError) else ConfigError("", str(error)))
    except RunEndedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except OSError as error:
        told = refusal_of_disk(error)
        if told is None and error.errno in NO_PATH and error.filename is not None:
            return report(ConfigError("", f"{error.strerror}: {os.fsdecode(error.filename)[:200]!r}"))
        if told is None:
            raise
        sys.stderr.write(f"{told}\n")
        return 1
    except KeyboardInterrupt:
        # a run that has begun to train treats it otherwise, and ends with the same status
        sys.stderr.write("\nCtrl-C: ended.\n")
        return 128 + signal.SIGINT
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0


def _dispatch(words: list[str]) -> int:
    if (complaint := other_distribution()) is not None:
        raise ConfigError("", complaint)
    first = words[0] if words else "--help"
    if first in ("--version", "-V"):
        from lightrl import __version__

        sys.stdout.write(f"lightrl {__version__}\n")
        return 0
    from lightrl.registry.commands import Commands

    commands = Commands()
    if first in HELP or (commands.below(first) and words[1:2] in ([], *([word] for word in HELP))):
        print_overview(commands, None if first in HELP else first)
        return 0
    try:
        command, rest = commands.find(words)
    except UnknownName as error:
        if same := get_close_matches(first.lower(), ELSEWHERE, 1, 0.75):
            problem = f"there is no verb {first!r}. Type for example: lightrl {ELSEWHERE[same[0]]}."
            raise ConfigError(f"lightrl {first}", problem, f"Verbs: {', '.join(commands.names)}.") from error
        raise ConfigError(f"lightrl {first}", str(error), "See: lightrl --help") from error
    if command.needs_model:
        from lightrl.registry.known_packages import chosen_entries, distribution_of_entry
        from lightrl.versions import refused_versions

        if (complaint := refused_versions(distribution_of_entry(entry)[0] for entry in chosen_entries())) is not None:
            raise ConfigError(f"lightrl {first}", complaint)
    return command().run(rest)


SLOW = ("torch", "lightning", "transformers", "torch._dynamo", "lightning.pytorch")
"""Modules; most take more than a second, without those that are named too."""


class _Teller(MetaPathFinder):
    """Finds nothing, and is asked before everything that does."""

    def __init__(self) -> None:
        self._slow = {name for name in SLOW if name not in sys.modules}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Tell of the first slow module; called by Python when it imports a module for the first time."""
        if fullname in self._slow:
            self._slow.clear()
            sys.stderr.write(f"loading {fullname} ...\n")
        return None


@contextmanager
def naming_slow_imports() -> Iterator[None]:
    """Within, a line on stderr says that a slow library is being imported, the first one; one process of a run speaks for all."""
    if local_rank() != 0:
        yield
        return
    teller = _Teller()
    sys.meta_path.insert(0, teller)
    try:
        yield
    finally:
        sys.meta_path.remove(teller)


ABOUT = "lightrl trains language models with reinforcement learning; every algorithm is a set of parts that can be exchanged."
KEYS = """\
Any key of the config can be set on the command line; the last one counts:
  --model.algorithm DAPO                                                   another algorithm, with its own parts
  --model.algorithm.clip DecoupledClip --model.algorithm.clip.high 0.3     another part, and one of its arguments
  --model.algorithm.kl null                                                an empty slot
  --model.rewards.length my_package.my_function                            one more reward
  --model.optimizer SGD --model.optimizer.lr 0.1
  --print_config                                                           the whole resolved config
  --model.algorithm.clip.help [NAME]                                       the parts a slot can hold, or the arguments of one
"""
COLUMN, WIDTH = 74, 150
"""Where the second column of the table of verbs begins, and the longest line."""


def print_overview(commands: Commands, below: str | None) -> None:
    """Print the verbs that begin with a word; None: all of them, with the keys of a config."""
    lines = [] if below else [ABOUT, ""]
    origin = CORE
    for distribution, command in commands.every if below is None else commands.below(below):
        if distribution != origin:
            lines += ["", f"From {distribution}:"]
            origin = distribution
        verb = " ".join(command.words())
        for words, summary in command.usage:
            lines += _row(f"  lightrl {verb} {words}", summary)
    lines += ["", KEYS.rstrip()] if below is None else ["", f"See: lightrl {below} VERB --help"]
    sys.stdout.write("\n".join(lines) + "\n")
    if commands.failures:
        sys.stderr.write(f"{commands.failures}\n")


def _row(typed: str, summary: str) -> list[str]:
    if len(typed) >= COLUMN:
        return [typed, *textwrap.wrap(summary, WIDTH, initial_indent=" " * COLUMN, subsequent_indent=" " * COLUMN)]
    return textwrap.wrap(summary, WIDTH, initial_indent=typed.ljust(COLUMN), subsequent_indent=" " * COLUMN) or [typed]
