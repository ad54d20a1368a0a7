"""The length of a run: `rollouts` is `trainer.max_epochs`, since one epoch of policy optimisation is one rollout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lightrl.config.describe.plain_values import checked
from lightrl.config.read.refusals import ConfigError
from lightrl.config.read.settings import Setting

LIMITS = ("max_epochs", "max_steps", "max_time", "fast_dev_run")
"""Trainer arguments that say when a run ends."""


@dataclass
class Rollouts:
    """The settings that decide the length of the run."""

    number: int | None = None
    """`rollouts`, the last that was given."""
    limits: dict[str, Any] = field(default_factory=dict)
    """Of the trainer's `LIMITS`, those that were given."""

    def read(self, content: dict[str, Any], setting: Setting) -> None:
        """Take note of one setting."""
        if "rollouts" in content:
            self.number = checked(int, content["rollouts"], "rollouts", setting.source)
            if self.number is not None and self.number < 1:
                raise ConfigError("rollouts", f"expected 1 or more, got {self.number}.", f"Given in: {setting.source}")
        trainer = content.get("trainer")
        if isinstance(trainer, dict):
            for name in LIMITS:
                if name in trainer:
                    value = trainer[name]
                    self.limits[name] = checked(int | None, value, "trainer.max_epochs", setting.source) if name == "max_epochs" else value
        epochs = self.limits.get("max_epochs")
        if None not in (self.number, epochs) and self.number != epochs:
            raise ConfigError(
                "rollouts", f"{self.number} rollouts and trainer.max_epochs {epochs} contradict each other: one epoch is one rollout.",
                "Give only one of them: --rollouts N.",
            )  # fmt: skip

    def check_module(self, module: str) -> None:
        """Refuse a number of rollouts for a module that learns from given rows."""
        if self.number is not None:
            raise ConfigError(
                "rollouts", f"{module} learns from given rows and makes none.",
                "Type: --trainer.max_steps N for optimizer steps, or --trainer.max_epochs N for passes over the data.",
            )  # fmt: skip

    @property
    def ends(self) -> bool:
        """The end of the run was stated in one way or another."""
        return self.number is not None or any(value is not None for value in self.limits.values())

    @property
    def epochs(self) -> int | None:
        """Epochs of the run, if they were given."""
        return self.number if self.number is not None else self.limits.get("max_epochs")

    @property
    def words(self) -> list[str]:
        """As words for Lightning's parser."""
        return [] if self.number is None else [f"--trainer.max_epochs={self.number}"]
