"""TextArena's games for one player: which can be played here, and why the others cannot."""

from __future__ import annotations

import difflib
import functools
import random
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lightrl import Environment, Prompt, Reply, required_package, without_thoughts
from lightrl_gym.gym_environment import Opening, first_text

if TYPE_CHECKING:
    import textarena
    from textarena.envs.registration import EnvSpec


RAW = "-raw"
ALONE = "SinglePlayerState("
"""A text in the source of every game for one player."""
REASONS = {
    r"nltk|EnglishDictionary": "it downloads word lists as soon as its module is loaded, so a run would depend on the network",
    r"OpenRouter": "it asks a language model over the network",
}
"""Words in the source of games that cannot be played, with the reason."""
SLOT = "{completion}"
TURNS = 100
"""The policy's turns at most, in games that have no limit of their own."""


def refuse(game: str) -> None:
    """Raise a ValueError if a game cannot be played here, with the reason and what to type; no module of a game is loaded for it."""
    specs = _specs()
    if game not in specs:
        raise ValueError(f"TextArena has no game {game!r}; {_exist(game)}")
    if not game.endswith(RAW):
        raise ValueError(f"TextArena's {game!r} repeats the whole history in every turn; {_exist(game)}")
    if reason := _reason(specs[game]):
        raise ValueError(f"TextArena's {game!r} cannot be played here: {reason}; {_exist(game)}")


@functools.cache
def playable() -> tuple[str, ...]:
    """The ids of all games that can be played here."""
    return tuple(sorted(name for name, spec in _specs().items() if name.endswith(RAW) and _reason(spec) is None))


def _exist(game: str) -> str:
    names = playable()
    near = difflib.get_close_matches(game + RAW * (not game.endswith(RAW)), names, n=3, cutoff=0.5)
    hint = f"near it: {', '.join(near)}; " if near else ""
    return f"{hint}there are: {', '.join(names)}"


def _specs() -> dict[str, EnvSpec]:
    from textarena.envs.registration import ENV_REGISTRY

    specs: dict[str, EnvSpec] = ENV_REGISTRY
    return specs


def _reason(spec: EnvSpec) -> str | None:
    module = spec.entry_point.partition(":")[0]
    file = _folder() / f"{module.replace('.', '/')}.py"
    if not file.is_file():
        return f"its module {module} is missing in this release"
    source = file.read_text()
    for word, reason in REASONS.items():
        if re.search(word, source):
            return reason
    if ALONE not in source:
        return "it is for more than one player"
    try:
        compile(source, str(file), "exec")
    except SyntaxError as error:
        return f"its module does not load in this version of Python: {error}"
    return None


def _folder() -> Path:
    import textarena

    package: ModuleType = textarena
    return Path(str(package.__file__)).parents[1]


class TextArena(Environment):
    """A game of TextArena for one player, by its name.

    Text, limits, replies and rewards are the package's. A game gives its reward when it ends. Most games allow one wrong move, and end at
    a second one in a row.

    Source: Guertler et al. 2025, *TextArena*, arXiv:2504.11442.
    """

    gives_rewards = True
    author = "game"

    def __init__(
        self,
        game: str,
        opening: str | None = None,
        chat: bool = True,
        action: str = SLOT,
        arguments: dict[str, Any] | None = None,
        max_turns: int | None = None,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            game: the name, `GuessTheNumber-v0-raw`; those without `-raw` repeat the whole history in every turn.
            opening: a text in place of the game's explanation; a board that it shows at first follows. The prompt's own text or messages,
                if it has some, stand in place of both.
            chat: the opening becomes the user's message, for policies with a chat template; false takes it as raw text.
            action: the text that the game gets for a completion: `"[{completion}]"` puts it into brackets.
            arguments: keyword arguments of the game, in place of those of its name: `{max_number: 50}`.
            max_turns: the policy's turns in an episode at most, wrong ones included; an episode that is cut by it has no reward of the
                game. null: as many as the game can take, or 100 where it has no limit.
            **kwargs: the arguments of `Environment`.

        Raises:
            ValueError: the game cannot be played here, an argument that it does not have, or TextArena is not installed.
        """
        required_package("textarena", "lightrl-gym[full]", "TextArena")
        self.game, self.opening, self.chat, self.action = game, opening, chat, action
        self.arguments = dict(arguments or {})
        if action.count(SLOT) != 1:
            raise ValueError(f'TextArena needs an action with {SLOT} in it, once, such as "[{SLOT}]"; got {action!r}')
        refuse(game)
        super().__init__(max_turns=(self._longest() or TURNS) if max_turns is None else max_turns, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # loading the package takes seconds: workers unpickle before the time of a call counts
        import textarena  # noqa: F401

        self.__dict__.update(state)

    def begin(self, prompt: Prompt, seed: int) -> Opening:
        # some games draw when they are made, before `reset` seeds the generator
        random.seed(seed)
        self._arena = self._made()
        self._arena.reset(num_players=1, seed=seed)
        rules, shown = self._first()
        return first_text(prompt, rules if self.opening is None else self.opening, shown, self.chat)

    def reply(self, completion: str) -> Reply:
        done, _ = self._arena.step(self.action.replace(SLOT, without_thoughts(completion).strip()))
        if done:
            return self._over()
        return Reply(self._new() or "Go on.", state=self._state())

    def _over(self) -> Reply:
        rewards, _ = self._arena.close()
        reward = float(rewards[0])
        said = "\n".join(part for part in (self._new(), str(self._facts().get("reason") or "")) if part)
        return Reply(said, reward, done=True, state={**self._state(), "won": reward == 1.0}, counts={"won": float(reward == 1.0)})

    def _state(self) -> dict[str, Any]:
        facts = self._facts()
        return {"won": False, "turns": facts["turn_count"], "wrong_move": facts["invalid_move"], "reason": facts.get("reason")}

    def _facts(self) -> dict[str, Any]:
        """The package's own notes on the only player."""
        facts: dict[str, Any] = self._arena.state.game_info[0]
        return facts

    def _new(self) -> str:
        """The messages since the last turn, but for the policy's own."""
        import textarena

        own = textarena.ObservationType.PLAYER_ACTION
        return "\n".join(text for _, text, kind in self._arena.get_observation()[1] if kind is not own)

    def _first(self) -> tuple[str, str]:
        """The explanation of the game, and what it shows at first."""
        import textarena

        explains = textarena.ObservationType.PROMPT
        messages = self._arena.get_observation()[1]
        rules, shown = ([text for _, text, kind in messages if (kind is explains) == wanted] for wanted in (True, False))
        return "\n".join(rules), "\n".join(shown)

    def _made(self) -> textarena.Env:
        import textarena

        return textarena.make(self.game, **self.arguments)

    def _longest(self) -> int | None:
        """The most turns that the game can take; None: it has no limit of its own."""
        state = random.getstate()
        try:
            made = self._made()
        except TypeError as error:
            raise ValueError(f"arguments {self.arguments} of {self.game}: {str(error).rpartition('.')[2]}") from error
        finally:
            random.setstate(state)
        limit = getattr(made, "max_turns", None)
        # the package counts one turn more than it says, and a wrong move may precede each
        return None if limit is None else 2 * (int(limit) + 1)
