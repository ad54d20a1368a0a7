"""The config of a command that scores outside of a run: read from its words, refused where it is wrong, its rewards built."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lightrl.config.build.builder import Builder
from lightrl.config.describe.class_help import print_class_help
from lightrl.config.merge.resolve import Resolved, check_complete, print_notes, resolve
from lightrl.config.read.refusals import ConfigError
from lightrl.config.read.settings import Request, read_words
from lightrl.parts.environment import Environment
from lightrl.registry.classes import closest
from lightrl.rewards.environment_reward import with_environment
from lightrl.rewards.reward_set import RewardSet


class ScoringConfig:
    """A config, and the builder of its parts."""

    def __init__(self, resolved: Resolved) -> None:
        self.resolved, self.builder = resolved, Builder()

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Within, a refusal of a part becomes a ConfigError with its key."""
        # failures of rows stand in the table
        logger = logging.getLogger("lightrl.rewards.scoring")
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            with self.builder.refusals():
                yield
        except RuntimeError as error:
            raise ConfigError("model.rewards", str(error)) from error
        finally:
            logger.setLevel(level)

    def rewards(self, rollout: int = 0, environment: Environment | None = None) -> RewardSet:
        """The rewards, those of the environment included; weights on a schedule are those after `rollout` rollouts.

        Raises:
            ConfigError: the config names none, or leaves out a required argument.
        """
        model = self.resolved.model
        chosen = model.value("rewards") if "rewards" in model.takes else None
        if not chosen and (environment is None or not environment.gives_rewards):
            raise ConfigError("model.rewards", "the config names no reward.", "Type for example: --model.rewards.correct ExactMatch")
        check_complete({"model.rewards": chosen})
        built = {name: self.builder.build(choice, f"model.rewards.{name}") for name, choice in (chosen or {}).items()}
        rewards = RewardSet(built if environment is None else with_environment(built, environment))
        rewards.rollouts = rollout
        return rewards


def read_scoring_config(
    parser: argparse.ArgumentParser, words: Sequence[str], wanted: tuple[str, str], verb: str = "fit", as_run: bool = False
) -> ScoringConfig | None:
    """Begin a command: read its config, print the notes on it, or the help of its keys.

    Args:
        parser: of the command's own options.
        words: those that are no option of its own.
        wanted: for a command without any config, what one is needed for, and an example.
        verb: of Lightning's Trainer, for the keys that it takes.
        as_run: refuse what a run would refuse: a required argument that is missing, a checkpoint that is not there.

    Returns:
        None if help was asked for, and has been printed.

    Raises:
        ConfigError: there is no config, or it cannot be carried out.
    """
    request = read_words(list(words))
    if request.help_for:
        print_class_help(verb, request.help_for, resolve(verb, request, complete=False).sections)
        return None
    _check_words(parser, request, *wanted)
    resolved = resolve(verb, request, complete=as_run)
    if as_run:
        from lightrl.config.build.checkpoints import with_checkpoint

        resolved = with_checkpoint(request, resolved)
    print_notes(resolved.notes)
    return ScoringConfig(resolved)


def _check_words(parser: argparse.ArgumentParser, request: Request, purpose: str, example: str) -> None:
    if request.help or request.print_config:
        raise ConfigError("--print_config", "shows a whole run.", "Type: lightrl fit --config FILE --print_config")
    if not request.settings:
        raise ConfigError("--config", f"not given: {purpose}?", f"Type for example: {example}")
    options = [option.lstrip("-") for action in parser._actions for option in action.option_strings]
    for setting in request.settings:
        if guess := closest(setting.path[0], options) if len(setting.path) == 1 else "":
            raise ConfigError(f"--{setting.path[0]}", f"there is no such option.{guess}", f"See: {parser.prog} --help")
