"""Environments of `verifiers`: its task sets, and the turns of the user that its environments have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightrl import Environment, Prompt, Reply, required_package, without_thoughts
from lightrl_guests.verifiers_play import Loaded, Message, Play, VerifiersError, loaded

TASK = "task"


class VerifiersEnvironment(Environment):
    """A task set of `verifiers` with its environment: the policy is its agent.

    The prompt is that of the task whose number is the id of the prompt, as in `EpisodeSeeds`, or its column `task`. verifiers runs the
    conversation, and asks for a turn where it would ask a model. The reward is the weighted sum of those of the task, once the episode is
    over. Messages that change what was said before fail the episode.

    Source: verifiers 0.4.0, `verifiers.v1`.
    """

    gives_rewards = True

    def __init__(self, taskset: str, config: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """
        Args:
            taskset: its id, the name of an installed module that exports it: `reverse_text`.
            config: further fields of its `EnvConfig`, by name: `{taskset: {split: train}}`.
            **kwargs: the arguments of `Environment`.

        Raises:
            ValueError: an argument outside its range, or a task set that cannot be played.
        """
        super().__init__(**kwargs)
        required_package("verifiers", "verifiers", "VerifiersEnvironment")
        self.taskset, self.config = taskset, dict(config or {})
        self._play: Play | None = None
        self._load()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # loading the package takes seconds: workers unpickle before the time of a call counts
        self.__dict__.update(state)
        self._load()

    def example_prompts(self) -> Sequence[Prompt]:
        return (Prompt(id="0", text=""), Prompt(id="other", text="", columns={TASK: 0}))

    def begin(self, prompt: Prompt, seed: int) -> Sequence[Message]:
        number = prompt.columns.get(TASK, int(prompt.id) if prompt.id.isdecimal() else None)
        found = self._load()
        if not isinstance(number, int) or number < 0:
            raise VerifiersError(f"the prompt {prompt.id!r} names no task: give it a column `{TASK}` with a number, or use EpisodeSeeds")
        try:
            task = found.task(number)
        except IndexError as error:
            raise VerifiersError(f"{self.taskset} has {len(found.tasks)} tasks, and none of the number {number}") from error
        self._play = Play(found.config, task)
        opening = self._play.begin()
        if opening is None:
            self._play.trace()
            raise VerifiersError(f"the environment of {self.taskset} was over before it asked for a turn")
        return opening

    def reply(self, completion: str) -> Reply:
        if self._play is None:
            raise VerifiersError("the episode has not begun")
        said = self._play.reply(without_thoughts(completion).strip())
        if said is not None:
            return Reply(said)
        trace = self._play.trace()
        rewards = {name: None if reward is None else reward.value for name, reward in trace.rewards.items()}
        state = {"rewards": rewards, "metrics": dict(trace.metrics), "stop": trace.stop_condition}
        return Reply(reward=trace.reward, done=True, state=state)

    def end(self) -> None:
        """End what the episode still has under way."""
        if self._play is not None:
            self._play.close()

    def _load(self) -> Loaded:
        return loaded(self.taskset, self.config, self.max_turns)
