"""Several environments in one run, one of them for each prompt."""

import json
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any

from lightrl import Environment, Prompt, Reply

Said = str | Sequence[dict[str, str]]
"""A text, or messages of a conversation."""


class EnvironmentByColumn(Environment):
    """Lets a column of the data choose among environments that the config names.

    Its episodes run in worker processes if those of one of them do. Limits are its own; those of the environments do not count.
    """

    def __init__(self, environments: dict[str, Environment], column: str = "environment", **limits: Any) -> None:
        """
        Args:
            environments: by the name that the column has for them.
            column: whose value names the environment of a prompt.
            **limits: the arguments of `Environment`.

        Raises:
            ValueError: there is no environment, one of them runs in an event loop, their tools differ, or a number of the turns of one has
                the name of a number of the episodes of another.
        """
        super().__init__(**limits)
        _check_environments(environments)
        self.environments, self.column = environments, column
        self.runs = "process" if any(environment.runs == "process" for environment in environments.values()) else "inline"
        self.gives_rewards = any(environment.gives_rewards for environment in environments.values())
        self.describes_tools = all(environment.describes_tools for environment in environments.values())
        self.gives = frozenset[str]().union(*(environment.gives for environment in environments.values()))
        self.gives_per_turn = frozenset[str]().union(*(environment.gives_per_turn for environment in environments.values()))
        if both := self.gives & self.gives_per_turn:
            raise ValueError(
                f"EnvironmentByColumn: {', '.join(sorted(both))} is a number of a turn in one environment and of an episode in another: "
                "rename one of them"
            )
        self._chosen: Environment | None = None

    @property
    def tools(self) -> Sequence[Any]:
        return next(iter(self.environments.values())).tools

    def check(self, columns: frozenset[str]) -> None:
        if self.column not in columns:
            raise ValueError(
                f"EnvironmentByColumn reads the column {self.column!r}, which the prompts lack. They have: "
                f"{', '.join(sorted(columns)) or 'none'}. Let the prompt source read it, or set column"
            )
        for environment in self.environments.values():
            environment.check(columns)

    def example_prompts(self) -> Sequence[Prompt]:
        return [
            replace(prompt, columns={**prompt.columns, self.column: name})
            for name, environment in self.environments.items()
            for prompt in environment.example_prompts()
        ]

    def example_turns(self, prompt: Prompt, seed: int) -> Sequence[str]:
        return self.environments[prompt.columns[self.column]].example_turns(prompt, seed)

    def begin(self, prompt: Prompt, seed: int) -> Said | Awaitable[Said]:
        name = prompt.columns.get(self.column)
        if not isinstance(name, str) or name not in self.environments:
            raise ValueError(f"prompt {prompt.id!r} has {self.column} {name!r}, and environments are: {', '.join(self.environments)}")
        self._chosen = self.environments[name]
        return self._chosen.begin(prompt, seed)

    def reply(self, completion: str) -> Reply | Awaitable[Reply]:
        if self._chosen is None:
            raise RuntimeError("EnvironmentByColumn was not begun: begin() chooses the environment that replies")
        return self._chosen.reply(completion)

    def end(self) -> Any:
        return None if self._chosen is None else self._chosen.end()


def _check_environments(environments: dict[str, Environment]) -> None:
    if not environments:
        raise ValueError("EnvironmentByColumn needs at least one environment: environments: {NAME: CLASS}")
    waiting = [name for name, environment in environments.items() if environment.runs == "async"]
    if waiting:
        raise ValueError(
            f"EnvironmentByColumn cannot take {', '.join(map(repr, waiting))}, which runs in an event loop: an async environment has to be "
            "the only one of a run"
        )
    tools = {name: json.dumps(list(environment.tools), sort_keys=True) for name, environment in environments.items()}
    if len(set(tools.values())) > 1:
        first = next(iter(tools))
        other = next(name for name, schemas in tools.items() if schemas != tools[first])
        raise ValueError(
            f"EnvironmentByColumn shows the same tools for every prompt, and those of {first!r} and {other!r} differ: give them the same "
            "tools, or each a run of its own"
        )
