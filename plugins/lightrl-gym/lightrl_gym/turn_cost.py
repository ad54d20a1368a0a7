"""A price for each turn."""

from typing import Any

from lightrl import Prompt, RowReward


class TurnCost(RowReward):
    """Minus a cost for each turn of the game after the first: -cost * (turns - 1).

    Games that give 1 for every win, however late, leave a policy no reason to win early.
    """

    runs = "inline"

    def __init__(self, cost: float = 0.1, **kwargs: Any) -> None:
        """
        Args:
            cost: of each further turn; at least 0.
            **kwargs: the arguments of `RowReward`.

        Raises:
            ValueError: a negative cost.
        """
        super().__init__(**kwargs)
        if cost < 0:
            raise ValueError(f"TurnCost needs cost >= 0, got {cost}")
        self.cost = cost

    def score(self, prompt: Prompt, completion: str, turns: int) -> float:
        return -self.cost * (turns - 1)
