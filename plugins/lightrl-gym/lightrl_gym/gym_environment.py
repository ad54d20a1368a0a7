"""Games of Gymnasium whose observations can be put in a sentence: how an episode begins, and which action a completion names."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from lightrl import Environment, Prompt, Reply, without_thoughts

if TYPE_CHECKING:
    import gymnasium


Opening = str | list[dict[str, str]]
"""A text, or the messages of a conversation."""


def first_text(prompt: Prompt, rules: str, shown: str, chat: bool) -> Opening:
    """The rules, then what the game shows at first.

    A prompt that has a text or messages of its own brings the rules itself.
    """
    if prompt.messages:
        return _continued(list(prompt.messages), shown)
    text = "\n".join(part for part in (prompt.text or rules, shown) if part)
    return [{"role": "user", "content": text}] if chat else text


def _continued(messages: list[dict[str, str]], shown: str) -> list[dict[str, str]]:
    """The conversation with what the game shows, in a message of the user: most chat templates refuse two of them in a row."""
    if not shown:
        return messages
    *before, last = messages
    if last["role"] != "user":
        return [*messages, {"role": "user", "content": shown}]
    return [*before, {**last, "content": f"{last['content']}\n{shown}"}]


def action_in(completion: str, actions: Mapping[str, int]) -> int | None:
    """The number of the last action that a completion names behind its thoughts, by a word in lower case or its number; None: no action."""
    text = without_thoughts(completion).lower()
    words = {**actions, **{str(number): number for number in actions.values()}}
    # a longer word first: `drop off` is not `drop`
    names = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    found = re.findall(rf"(?<!\w)(?:{names})(?!\w)", text)
    return words[found[-1]] if found else None


class GymEnvironment(Environment):
    """A game of Gymnasium, played by naming an action, by its word or its number; the last one that a completion names counts.

    The seed of the episode goes into `reset(seed=...)`. Gymnasium's own step limit is off: `max_turns` is the limit. Every turn has the
    game's reward.
    """

    runs = "inline"
    gives_rewards = True
    author = "game"
    game: ClassVar[str]
    """Its id in Gymnasium."""
    actions: ClassVar[Mapping[str, int]]
    """The number of each word for an action; the first word of a number is the one that the policy reads."""
    rules: ClassVar[str]
    """The text that begins an episode, before what the game shows."""

    def __init__(
        self,
        opening: str | None = None,
        chat: bool = True,
        wrong_reward: float = 0.0,
        wrong_ends: bool = False,
        max_turns: int = 100,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            opening: a text in place of the rules; what the game shows at first follows it. The prompt's own text or messages, if it has
                some, stand in place of both.
            chat: the opening becomes the user's message, for policies with a chat template; false takes it as raw text.
            wrong_reward: the reward of a turn that names no action.
            wrong_ends: a turn that names no action ends the episode; false tells the policy which actions there are.
            max_turns: the policy's turns in an episode at most, those that name no action included.
            **kwargs: the arguments of `Environment`.
        """
        super().__init__(max_turns=max_turns, **kwargs)
        self.opening, self.chat, self.wrong_reward, self.wrong_ends = opening, chat, wrong_reward, wrong_ends
        self._turns = 0

    def example_turns(self, prompt: Prompt, seed: int) -> list[str]:
        return list(self.actions)

    def begin(self, prompt: Prompt, seed: int) -> Opening:
        self._gym = self._made(seed)
        self._turns = 0
        observation, _ = self._gym.reset(seed=seed)
        return first_text(prompt, self.rules if self.opening is None else self.opening, self._shown(observation), self.chat)

    def reply(self, completion: str) -> Reply:
        self._turns += 1
        action = action_in(completion, self.actions)
        if action is None:
            return self._wrong()
        observation, gained, done, _, _ = self._gym.step(action)
        reward = float(gained)
        if not done:
            return Reply(self._shown(observation), reward, state=self._state(False, ""))
        result = self._result(observation, reward)
        return Reply(result, reward, done=True, state=self._state(reward > 0, result), counts={"won": float(reward > 0)})

    def _wrong(self) -> Reply:
        numbers = dict.fromkeys(self.actions.values())
        words = ", ".join(next(word for word, number in self.actions.items() if number == wanted) for wanted in numbers)
        text = f"That names no action. The actions are: {words}."
        state = self._state(False, text if self.wrong_ends else "")
        return Reply(text, self.wrong_reward, self.wrong_ends, state, {"wrong_actions": 1.0})

    def _state(self, won: bool, reason: str) -> dict[str, bool | int | str]:
        return {"won": won, "turns": self._turns, "reason": reason}

    def _made(self, seed: int) -> gymnasium.Env[Any, Any]:
        import gymnasium

        return gymnasium.make(self.game, max_episode_steps=-1, **self._arguments(seed))

    def _arguments(self, seed: int) -> dict[str, Any]:
        """The keyword arguments of `gymnasium.make`."""
        return {}

    @abstractmethod
    def _shown(self, observation: Any) -> str:
        """The observation as a text."""

    @abstractmethod
    def _result(self, observation: Any, reward: float) -> str:
        """The end of the game as a text."""
