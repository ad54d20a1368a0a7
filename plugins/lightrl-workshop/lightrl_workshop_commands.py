"""The commands for those who write plugins."""

from __future__ import annotations

from typing import Any

from lightrl import Command, hookimpl


class PluginsNew(Command):
    """Write a package with a working part."""

    usage = (("my-idea --kind advantage", "write a package with a working part, for you to change"),)

    def run(self, words: list[str]) -> int:
        from lightrl_workshop.verbs.new import new

        return new(words)


class PluginsCheck(Command):
    """Run the contracts and configs of plugins."""

    usage = (("NAME", "run a plugin's contracts and configs in a fresh process"),)

    def run(self, words: list[str]) -> int:
        from lightrl_workshop.verbs.check import check

        return check(words)


@hookimpl
def lightrl_commands() -> list[type[Any]]:
    return [PluginsNew, PluginsCheck]
