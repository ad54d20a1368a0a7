"""One class for each check of the contract of prompt sources, which breaks that check."""

from __future__ import annotations

from broken_contracts.wrong import wrong

from lightrl import DigitSorting, Prompt

KIND = "prompt source"


class Fickle(DigitSorting):
    """Broken on purpose: the same number gives another prompt the second time."""

    def prompt(self, index: int) -> Prompt:
        self.asked = getattr(self, "asked", 0) + 1
        return Prompt(id=str(self.asked), text="1=")


plain = {"prompt": lambda self, index: Prompt(id=str(index), text="1=", answer=(1, 2))}
BROKEN = {
    "the same number gives the same prompt, always": Fickle,
    "its prompts are JSON values": wrong(DigitSorting, **plain),
}
