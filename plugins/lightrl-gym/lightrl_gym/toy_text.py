"""Gymnasium's games of text, and a reward for winning them early."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from lightrl import Prompt, RowReward
from lightrl_gym.gym_environment import GymEnvironment

STATIONS = ("red", "green", "yellow", "blue")


class Blackjack(GymEnvironment):
    """Gymnasium's `Blackjack-v1`: an infinite deck, and a dealer who stands on 17.

    The reward is 1 for a hand that is won, 0 for a draw and -1 for one that is lost, and 0 for each card taken before.

    Source: Sutton & Barto 2018, *Reinforcement Learning*, example 5.1.
    """

    game = "Blackjack-v1"
    actions = {"stand": 0, "stick": 0, "hit": 1}
    rules = (
        "You play blackjack. Aces count 11 or 1, face cards 10. Say hit to take a card, or stand to stop. You lose above 21; "
        "otherwise the hand that is nearer to 21 wins."
    )

    def __init__(self, max_turns: int = 20, natural: bool = False, sab: bool = False, **kwargs: Any) -> None:
        """
        Args:
            max_turns: the policy's turns in an episode at most; 20 are enough for every hand.
            natural: an ace and a ten at the start that win give 1.5.
            sab: the rules of the book of Sutton and Barto, in which such a start wins against all but another one.
            **kwargs: the arguments of `GymEnvironment`.

        Raises:
            ValueError: an argument outside its range, or both rules at once, of which Gymnasium would ignore one.
        """
        super().__init__(max_turns=max_turns, **kwargs)
        if natural and sab:
            raise ValueError("Blackjack has natural or sab, not both: under sab a natural gives 1")
        self.natural, self.sab = natural, sab

    def _arguments(self, seed: int) -> dict[str, Any]:
        return {"natural": self.natural, "sab": self.sab}

    def _shown(self, observation: Any) -> str:
        hand, dealer, ace = observation
        return f"You have {hand}{' with an ace that counts 11' if ace else ''}. The dealer shows {dealer}."

    def _result(self, observation: Any, reward: float) -> str:
        hand, _, _ = observation
        if hand > 21:
            return f"You have {hand}. You lose."
        game: Any = self._gym.unwrapped
        cards = game.dealer
        dealer = sum(cards) + (10 if 1 in cards and sum(cards) <= 11 else 0)
        return f"You have {hand}. The dealer has {dealer}. {'You win.' if reward > 0 else 'You lose.' if reward < 0 else 'A draw.'}"


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
        random_size: Annotated[int, Ge(2)] | None = None,
        is_slippery: bool = True,
        success_rate: Annotated[float, Ge(0), Le(1)] = 1 / 3,
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
            ValueError: another map.
        """
        super().__init__(**kwargs)
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


class Taxi(GymEnvironment):
    """Gymnasium's `Taxi-v4`: fetch a passenger at one of four stations and bring them to another.

    The reward is 20 for bringing the passenger there, -10 for a wrong pickup or dropoff, and -1 for every other turn.

    Source: Dietterich 2000, *Hierarchical Reinforcement Learning with the MAXQ Value Function Decomposition*.
    """

    game = "Taxi-v4"
    actions = {"down": 0, "up": 1, "right": 2, "left": 3, "pickup": 4, "dropoff": 5}
    actions |= {"south": 0, "north": 1, "east": 2, "west": 3, "pick up": 4, "drop off": 5}
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


class EarlyWin(RowReward):
    """1 - cost * (turns - 1) for a game that was won, and 0 for any other.

    Whether it was won is in the environment's `state`, as `won`. Games that give 1 for every win, however late, leave a policy no reason to
    win early.
    """

    runs = "inline"

    def __init__(self, cost: Annotated[float, Ge(0)] = 0.1, **kwargs: Any) -> None:
        """
        Args:
            cost: of each turn after the first; at least 0.
            **kwargs: the arguments of `RowReward`.
        """
        super().__init__(**kwargs)
        self.cost = cost

    def score(self, prompt: Prompt, completion: str, turns: int, state: dict[str, Any]) -> float:
        if "won" not in state:
            raise ValueError(f"the state of the episode has no `won`, it has: {', '.join(state) or 'nothing'}")
        return 1.0 - self.cost * (turns - 1) if state["won"] else 0.0
