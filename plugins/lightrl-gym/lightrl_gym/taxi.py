"""Taxi."""

from typing import Any

from lightrl_gym.gym_environment import GymEnvironment

STATIONS = ("red", "green", "yellow", "blue")


class Taxi(GymEnvironment):
    """Gymnasium's `Taxi-v4`: fetch a passenger at one of four stations and bring them to another.

    The reward is 20 for bringing the passenger there, -10 for a wrong pickup or dropoff, and -1 for every other turn.

    Source: Dietterich 2000, *Hierarchical Reinforcement Learning with the MAXQ Value Function Decomposition*.
    """

    game = "Taxi-v4"
    actions = {
        "down": 0,
        "south": 0,
        "up": 1,
        "north": 1,
        "right": 2,
        "east": 2,
        "left": 3,
        "west": 3,
        "pickup": 4,
        "pick up": 4,
        "dropoff": 5,
        "drop off": 5,
    }
    rules = (
        "You drive a taxi in a grid of 5 rows and 5 columns, counted from 0 at the top left; | is a wall. Fetch the passenger and bring "
        "them to the destination. Say down, up, right, left, pickup or dropoff. red is at row 0, column 0; green at row 0, column 4; "
        "yellow at row 4, column 0; blue at row 4, column 3.\n"
        "+---------+\n|R: | : :G|\n| : | : : |\n| : : : : |\n| | : | : |\n|Y| : |B: |\n+---------+"
    )

    def __init__(self, max_turns: int = 200, is_rainy: bool = False, fickle_passenger: bool = False, **kwargs: Any) -> None:
        """
        Args:
            max_turns: the policy's turns in an episode at most.
            is_rainy: a move goes to either side of where it should, each with probability 0.1.
            fickle_passenger: the passenger may change the destination after the first move with them, with probability 0.3.
            **kwargs: the arguments of `GymEnvironment`.

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(max_turns=max_turns, **kwargs)
        self.is_rainy, self.fickle_passenger = is_rainy, fickle_passenger

    def _arguments(self, seed: int) -> dict[str, Any]:
        return {"is_rainy": self.is_rainy, "fickle_passenger": self.fickle_passenger}

    def _shown(self, observation: Any) -> str:
        game: Any = self._gym.unwrapped
        row, column, passenger, destination = game.decode(int(observation))
        place = "in the taxi" if passenger == len(STATIONS) else f"at {STATIONS[passenger]}"
        return f"The taxi is at row {row}, column {column}. The passenger is {place}, and wants to go to {STATIONS[destination]}."

    def _result(self, observation: Any, reward: float) -> str:
        return "The passenger has arrived."
