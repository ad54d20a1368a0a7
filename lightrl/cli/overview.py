"""The output of `lightrl` alone: its verbs, with examples and the packages that bring them."""

from __future__ import annotations

import sys
import textwrap

from lightrl.registry.commands import Commands
from lightrl.registry.known_packages import CORE

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
