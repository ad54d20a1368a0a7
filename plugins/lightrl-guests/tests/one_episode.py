"""One episode of an environment, played by given turns."""

from __future__ import annotations

from lightrl import Environment, Prompt
from lightrl.environments.episode_host import EpisodeAnswer, EpisodeHost


def played(environment: Environment, turns: tuple[str, ...], prompt: Prompt, seed: int) -> list[EpisodeAnswer]:
    """The answers in one episode: to `begin`, to the turns up to one that fails or ends it, and to `end`."""
    host = EpisodeHost(environment)
    try:
        answers = host.begin([(0, prompt, seed)]).result()
        for turn in turns:
            if answers[-1].error is not None or (answers[-1].reply is not None and answers[-1].reply.done):
                break
            answers += host.reply([(0, turn)]).result()
        return answers + host.end([0]).result()
    finally:
        host.close()
