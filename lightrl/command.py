"""The base class of commands: what can be typed after `lightrl`."""

from __future__ import annotations

import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

_WORD = re.compile(r"[A-Z][a-z0-9]*")


class Command(ABC):
    """A verb of the command line.

    The name of the class is what is typed: `Report` is `lightrl report`, `RewardTest` is `lightrl reward test`. The module of a command is
    imported whenever `lightrl` lists its verbs, so a command imports what is slow in `run`.
    """

    usage: ClassVar[Sequence[tuple[str, str]]] = ()
    """Lines of `lightrl --help`: the words after the verb, and in a few words what they do. At least one."""
    needs_model: ClassVar[bool] = False
    """Builds a model: versions of packages that lightrl does not run with are refused first."""
    option: ClassVar[str | None] = None
    """Such as `--push`: carries out a verb of another package wherever this word follows it, with the help of the other command."""

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The words that are typed after `lightrl`."""
        return tuple(word.lower() for word in _WORD.findall(cls.__name__))

    @abstractmethod
    def run(self, words: list[str]) -> int:
        """Carry out the command.

        Args:
            words: that follow the verb.

        Returns:
            The exit status: 0, or 1 if the answer is that something is wrong.

        Raises:
            ConfigError: the request cannot be carried out; the command line prints it and ends with status 2.
        """


class FunctionCommand(Command):
    """A verb that a function carries out, whose module is imported when it is typed."""

    carried_out_by: ClassVar[str]
    """`package.module:function`, given the words after the verb; gives the exit status."""

    def run(self, words: list[str]) -> int:
        status: int = pkgutil.resolve_name(self.carried_out_by)(words)
        return status
