"""One class for each check of the contract of commands, which breaks that check."""

from __future__ import annotations

from broken_contracts.wrong import wrong

from lightrl import Command

KIND = "command"


class Right(Command):
    """Does nothing."""

    usage = (("", "do nothing"),)

    def run(self, words: list[str]) -> int:
        return 0


class Heavy(Command):
    """Broken on purpose: its module imports torch."""

    __module__ = "lightrl_workshop.toy"
    usage = (("", "do nothing"),)

    def run(self, words: list[str]) -> int:
        return 0


BROKEN = {
    "its class is documented, and its name is made of words": type("HTTPServe", (Right,), {"__doc__": "Broken on purpose."}),
    "it has a line in the list of commands": wrong(Right, usage=()),
    "importing it imports nothing slow": Heavy,
    "--help explains it": wrong(Right, run=lambda self, words: 2),
}
