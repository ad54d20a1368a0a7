"""Blackjack."""

from typing import Any

from lightrl_gym.gym_environment import GymEnvironment


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
        dealer = _value(game.dealer)
        return f"You have {hand}. The dealer has {dealer}. {'You win.' if reward > 0 else 'You lose.' if reward < 0 else 'A draw.'}"


def _value(cards: list[int]) -> int:
    total = sum(cards)
    return total + 10 if 1 in cards and total <= 11 else total
