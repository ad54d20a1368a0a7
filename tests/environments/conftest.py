from collections.abc import Callable
from pathlib import Path

import pytest

from lightrl.environments.episode_host import EpisodeAnswer, EpisodeHost
from lightrl.prompt import Prompt

Play = Callable[[EpisodeHost, list[str], int], list[list[EpisodeAnswer]]]


@pytest.fixture(autouse=True)
def _bad_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture
def play() -> Play:
    """One episode per prompt, all side by side: per episode, the answers to `begin` and to each turn up to one that failed or ended it."""

    def run(host: EpisodeHost, texts: list[str], turns: int) -> list[list[EpisodeAnswer]]:
        said = host.begin([(i, Prompt(id=f"p{i}", text=text), 100 + i) for i, text in enumerate(texts)]).result()
        answers = [[answer] for answer in said]
        for turn in range(turns):
            under_way = [i for i, own in enumerate(answers) if own[-1].error is None and not (own[-1].reply and own[-1].reply.done)]
            given = host.reply([(i, "x" * (turn + i)) for i in under_way]).result()
            for i, answer in zip(under_way, given, strict=True):
                answers[i].append(answer)
        host.end(range(len(texts)))
        return answers

    return run
