"""The commands that can be typed, by their words; nothing but the modules of commands is imported."""

from __future__ import annotations

from collections.abc import Sequence

from lightrl.command import Command
from lightrl.kinds import COMMAND
from lightrl.registry.classes import Registry, UnknownName, closest, did_not_load
from lightrl.registry.known_packages import where_to_find
from lightrl.registry.loader import load_commands


class Commands:
    """The commands of the installed packages."""

    def __init__(self) -> None:
        self._registry = Registry(load_commands())
        self.every: list[tuple[str, type[Command]]] = self._registry.registered(COMMAND.title)
        """Distribution and class, the core's first, in the order in which each package lists them."""

    @property
    def names(self) -> list[str]:
        """The commands that can be typed."""
        return list(dict.fromkeys(" ".join(cls.words()) for _, cls in self.every))

    @property
    def failures(self) -> str:
        """A line for each plugin whose commands did not load."""
        return did_not_load(self._registry.records).strip()

    def below(self, word: str) -> list[tuple[str, type[Command]]]:
        """The commands of several words that begin with this one: `reward test` of `reward`."""
        return [(distribution, cls) for distribution, cls in self.every if cls.words()[0] == word and len(cls.words()) > 1]

    def find(self, words: Sequence[str]) -> tuple[type[Command], list[str]]:
        """The command that words begin with, the longest that fits, and the words after it; `DISTRIBUTION:VERB` names the package, too."""
        distribution, _, first = words[0].rpartition(":")
        typed = (first, *words[1:])
        options = {None, *(word.partition("=")[0] for word in words)}
        own = [(other, cls) for other, cls in self.every if distribution in ("", other) and cls.option in options]
        found = [(other, cls) for other, cls in own if typed[: len(cls.words())] == cls.words()]
        if not found:
            raise UnknownName(self._missing(typed))
        longest = max(len(cls.words()) for _, cls in found)
        matches = [(other, cls) for other, cls in found if len(cls.words()) == longest]
        matches = [match for match in matches if match[1].option] or matches
        if len(matches) > 1:
            verb = " ".join(typed[:longest])
            choices = " or ".join(f"lightrl {other}:{verb}" for other, _ in matches)
            raise UnknownName(f"{len(matches)} packages bring the verb {verb!r}. Type {choices}.")
        return matches[0][1], list(words[longest:])

    def _missing(self, typed: Sequence[str]) -> str:
        siblings = [" ".join(cls.words()) for _, cls in self.below(typed[0])]
        names = siblings or self.names
        for verb in (" ".join(typed[:2]), typed[0]):
            if package := where_to_find(verb, "commands", self._registry.packages):
                return f"{verb!r} is not installed.{package}"
        verb = " ".join(typed[:2]) if siblings else typed[0]
        return f"there is no verb {verb!r}.{closest(verb, names)} Verbs: {', '.join(names)}.{did_not_load(self._registry.records)}"
