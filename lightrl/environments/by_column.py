"""Several environments in one run, one of them for each prompt."""

from __future__ import annotations

from typing import Any

from lightrl.parts.environment import AsyncEnvironment, Environment, Reply, Said
from lightrl.prompt import JSON, Prompt


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
            ValueError: there is no environment, or one of them runs in an event loop.
        """
        super().__init__(**limits)
        waiting = [name for name, environment in environments.items() if isinstance(environment, AsyncEnvironment)]
        if waiting or not environments:
            raise ValueError(
                f"EnvironmentByColumn cannot take {', '.join(waiting)}, which runs in an event loop: make it the only environment of a run"
                if waiting
                else "EnvironmentByColumn needs at least one environment: environments: {NAME: CLASS}"
            )
        self.environments, self.column = environments, column
        self.runs = "process" if any(environment.runs == "process" for environment in environments.values()) else "inline"
        self.gives_rewards = any(environment.gives_rewards for environment in environments.values())
        self._chosen: Environment | None = None

    def check(self, columns: frozenset[str]) -> None:
        if self.column not in columns:
            raise ValueError(
                f"EnvironmentByColumn reads the column {self.column!r}, which the prompts lack. They have: "
                f"{', '.join(sorted(columns)) or 'none'}. Let the prompt source read it, or set column"
            )
        for environment in self.environments.values():
            environment.check(columns)

    def begin(self, prompt: Prompt, seed: int) -> Any:
        name = prompt.columns.get(self.column)
        if not isinstance(name, str) or name not in self.environments:
            raise ValueError(f"prompt {prompt.id!r} has {self.column} {name!r}; environments are: {', '.join(self.environments)}")
        self._chosen = self.environments[name]
        return self._chosen.begin(prompt, seed)
