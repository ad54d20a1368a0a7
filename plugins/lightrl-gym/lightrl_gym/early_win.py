"""More for a game that is won early."""

from typing import Any

from lightrl import Prompt, RowReward


class EarlyWin(RowReward):
    """1 - cost * (turns - 1) for a game that was won, and 0 for any other.

    Whether it was won is in the environment's `state`, as `won`. Games that give 1 for every win, however late, leave a policy no reason to
    win early.
    """

    runs = "inline"

    def __init__(self, cost: float = 0.1, **kwargs: Any) -> None:
        """
        Args:
            cost: of each turn after the first; at least 0.
            **kwargs: the arguments of `RowReward`.

        Raises:
            ValueError: a negative cost.
        """
        super().__init__(**kwargs)
        if cost < 0:
            raise ValueError(f"EarlyWin needs cost >= 0, got {cost}")
        self.cost = cost

    def score(self, prompt: Prompt, completion: str, turns: int, state: dict[str, Any]) -> float:
        if "won" not in state:
            raise ValueError(f"the state of the episode has no `won`, it has: {', '.join(state) or 'nothing'}")
        return 1.0 - self.cost * (turns - 1) if state["won"] else 0.0
