"""Turns that play no game, against the rewards of an environment: the same one in all episodes, or copies of what was said."""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from lightrl import Environment, Prompt
from lightrl.environments.episode_host import EpisodeAnswer, EpisodeHost
from lightrl.rewards.environment_reward import NAME
from lightrl_attack.attacks import Attack, fixed
from lightrl_attack.outcome import Earned, Verdict, verdict

WORDS = 40
"""Words of openings and replies, the most frequent ones, that are tried as turns."""
AT_ONCE = 256
"""Episodes."""
FAMILIES = ("nothing", "nonsense", "special values", "control tokens", "words to a judge")
"""Of the completions that need no data, those that are tried as turns."""
GUESSES = (*map(str, range(10)), "a", "b", "c", "d", "yes", "no")
OWN = "its example turns"


@dataclass(frozen=True)
class Way:
    """How the turns of an episode are chosen."""

    name: str
    family: str
    say: Callable[[list[str]], str]
    """Of all that was said so far, the opening first."""
    reads: str = "nothing"


@dataclass
class Play:
    """An episode."""

    say: Callable[[list[str]], str]
    prompt: Prompt
    said: list[str] = field(default_factory=list)
    """By the environment."""
    total: float = 0.0
    """Of its rewards; NaN where it has failed."""
    over: bool = False

    @property
    def seed(self) -> int:
        """The same in every way to play."""
        return _seed(self.prompt)

    def hear(self, answer: EpisodeAnswer) -> None:
        """Take an answer of the environment."""
        if answer.error is not None:
            self.total, self.over = math.nan, True
        elif answer.reply is None:
            self.said.append(_text(answer.said))
        else:
            self.total += answer.reply.reward or 0.0
            self.said.append(_text(answer.reply.said))
            self.over = answer.reply.done


def attacked_environment(environment: Environment, prompts: Sequence[Prompt], limit: float = 0.5) -> Verdict:
    """Play episodes without playing.

    Args:
        environment: that gives rewards.
        prompts: n, each an episode of every way to play.
        limit: the largest share that a way may earn.
    """
    host = EpisodeHost(environment)
    host.start()
    try:
        said = list[str]()
        tried = [earned(host, way, prompts, said) for way in _fixed()]
        words = [word for word, _ in Counter(re.findall(r"\[[^\[\]\s]{1,20}\]|\w+", " ".join(said))).most_common(WORDS)]
        tried += [earned(host, way, prompts) for way in (*_constant(words), *_copies())]
        turns = [environment.example_turns(prompt, _seed(prompt)) for prompt in prompts]
        own = [_earned(host, OWN, prompts, [Play(_in_order(of), prompt) for of, prompt in zip(turns, prompts, strict=True)])]
    finally:
        host.close()
    return verdict(own if all(turns) else [], tried, limit, OWN)


def earned(host: EpisodeHost, way: Way, prompts: Sequence[Prompt], said: list[str] | None = None) -> Earned:
    """The totals of a way to play, one for each prompt; `said` gets what the environment has said."""
    plays = [Play(way.say, prompt) for prompt in prompts]
    found = _earned(host, way.name, prompts, plays, way.family, way.reads)
    if said is not None:
        said += [text for play in plays for text in play.said]
    return found


def _earned(
    host: EpisodeHost, name: str, prompts: Sequence[Prompt], plays: Sequence[Play], family: str = "own", reads: str = "the answer"
) -> Earned:
    for first in range(0, len(plays), AT_ONCE):
        _played(host, plays[first : first + AT_ONCE])
    totals = torch.tensor([play.total for play in plays], dtype=torch.float64) * host.environment.weight
    turns = tuple(play.say(play.said or [""]) for play in plays)
    return Earned(Attack(name, family, turns, reads), totals, {NAME: float(totals.nanmean())})


def _played(host: EpisodeHost, plays: Sequence[Play]) -> None:
    for play, answer in zip(
        plays, host.begin([(number, play.prompt, play.seed) for number, play in enumerate(plays)]).result(), strict=True
    ):
        play.hear(answer)
    for _ in range(host.environment.max_turns):
        live = [(number, play) for number, play in enumerate(plays) if not play.over]
        answers = host.reply([(number, play.say(play.said)) for number, play in live]).result() if live else []
        for (_, play), answer in zip(live, answers, strict=True):
            play.hear(answer)
    host.end(range(len(plays)))


def _fixed() -> Iterator[Way]:
    for name, family, text in fixed():
        if family in FAMILIES:
            yield Way(name, family, _always(text))


def _constant(words: Sequence[str]) -> Iterator[Way]:
    for word in dict.fromkeys([*words, *GUESSES]):
        yield Way(f"always {word!r}", "constant turns", _always(word))


def _copies() -> Iterator[Way]:
    yield Way("what was said last", "copies", lambda said: said[-1], "the game")
    yield Way("the opening", "copies", lambda said: said[0], "the game")
    yield Way("the last word that was said", "copies", lambda said: (said[-1].split() or [""])[-1], "the game")


def _always(text: str) -> Callable[[list[str]], str]:
    return lambda said: text


def _in_order(turns: Sequence[str]) -> Callable[[list[str]], str]:
    return lambda said: turns[len(said) - 1] if len(said) <= len(turns) else ""


def _seed(prompt: Prompt) -> int:
    return zlib.crc32(prompt.id.encode()) >> 1


def _text(said: object) -> str:
    """The last text of what an environment has said."""
    if isinstance(said, str) or said is None:
        return said or ""
    return str(list(said)[-1].get("content") or "")  # type: ignore[call-overload]
