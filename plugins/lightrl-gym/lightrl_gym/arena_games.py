"""The games of TextArena that can be played here, and why the others cannot."""

from __future__ import annotations

import difflib
import functools
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textarena.envs.registration import EnvSpec

RAW = "-raw"
ALONE = "SinglePlayerState("
"""Stands in the source of every game for one player."""
REASONS = {
    r"nltk|EnglishDictionary": "it downloads word lists as soon as its module is loaded, so a run would depend on the network",
    r"OpenRouter": "it asks a language model over the network",
}
"""Words in the source of games that cannot be played, with the reason."""


def refuse(game: str) -> None:
    """Raise if a game cannot be played here; no module of a game is loaded for it.

    Raises:
        ValueError: there is no such game, or it cannot be played; with the reason, and what to type.
    """
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
