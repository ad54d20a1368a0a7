"""One class for each check of the contract of rewards, which breaks that check."""

from __future__ import annotations

from lightrl import Prompt, RowReward

KIND = "reward"


class Remembering(RowReward):
    """Broken on purpose: a score depends on how many were scored before."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str) -> float:
        self.seen = getattr(self, "seen", 0) + 1
        return float(self.seen)


class Weightless(Remembering):
    """Broken on purpose."""

    def __init__(self) -> None:
        super().__init__(weight=float("inf"))


class Homebound(RowReward):
    """Broken on purpose: it holds what cannot be sent to another process."""

    def __init__(self) -> None:
        super().__init__()
        self.length = lambda text: len(text)

    def score(self, prompt: Prompt, completion: str) -> float:
        return float(self.length(completion))


class Dividing(RowReward):
    """Broken on purpose: it divides by the length of a completion that may be empty."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str) -> float:
        return completion.count("x") / len(completion)


BROKEN = {
    "an empty completion does not fail where the others get a score": Dividing,
    "it has a finite weight": Weightless,
    "a score depends on its own row alone": Remembering,
    "a worker process can load it, and scores the same there": Homebound,
}
