"""Frozen lake."""

from typing import Any, Literal

from lightrl_gym.gym_environment import GymEnvironment


class FrozenLake(GymEnvironment):
    """Gymnasium's `FrozenLake-v1`: cross the ice to the goal without falling into a hole; the reward is 1 at the goal and else 0.

    The policy sees the map after each move.
    """

    game = "FrozenLake-v1"
    actions = {"left": 0, "down": 1, "right": 2, "up": 3}
    rules = "You walk on a frozen lake. P is you, S the start, F ice, H a hole, G the goal. Say left, down, right or up."

    def __init__(
        self,
        map_name: Literal["4x4", "8x8"] = "4x4",
        random_size: int | None = None,
        is_slippery: bool = True,
        success_rate: float = 1 / 3,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            map_name: one of the two maps that Gymnasium has.
            random_size: cells along each side of a map that is drawn from the seed of the episode, in place of `map_name`; at least 2.
            is_slippery: a move goes to either side of where it should.
            success_rate: on slippery ice, the probability that a move goes where it should; in [0, 1].
            **kwargs: the arguments of `GymEnvironment`.

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(**kwargs)
        if map_name not in ("4x4", "8x8") or (random_size is not None and random_size < 2) or not 0 <= success_rate <= 1:
            raise ValueError(
                "FrozenLake needs map_name 4x4 or 8x8, random_size >= 2 and success_rate in [0, 1], "
                f"got {map_name!r}, {random_size} and {success_rate}"
            )
        self.map_name, self.random_size = map_name, random_size
        self.is_slippery, self.success_rate = is_slippery, success_rate

    def _arguments(self, seed: int) -> dict[str, Any]:
        from gymnasium.envs.toy_text.frozen_lake import generate_random_map

        drawn = None if self.random_size is None else generate_random_map(self.random_size, seed=seed)
        return {"map_name": self.map_name, "desc": drawn, "is_slippery": self.is_slippery, "success_rate": self.success_rate}

    def _shown(self, observation: Any) -> str:
        game: Any = self._gym.unwrapped
        cells = [[cell.decode() for cell in row] for row in game.desc]
        row, column = divmod(int(observation), len(cells[0]))
        cells[row][column] = "P"
        return "\n".join("".join(line) for line in cells)

    def _result(self, observation: Any, reward: float) -> str:
        return "You are at the goal." if reward > 0 else "You fell into a hole."
