"""Tables of completions show whole conversations, and who wrote what."""

from __future__ import annotations

import random
import re

from lightrl_workshop import rollouts_with

from lightrl import Environment, Prompt, Reply, TinyPolicy, TransformersEngine
from lightrl.callbacks.completions_log import completions_table, terminal_lines
from lightrl.types import Rollout


class Sums(Environment):
    """Says sums that depend on its seed, three times."""

    runs = "inline"
    author = "teacher"

    def begin(self, prompt: Prompt, seed: int) -> str:
        self.draw, self.left = random.Random(seed), 3
        return "1+1="

    def reply(self, completion: str) -> Reply:
        self.left -= 1
        return Reply(f"{self.draw.randrange(10)}*2=", done=not self.left)


def played() -> Rollout:
    policy = TinyPolicy(hidden=8, layers=1, heads=2).build()
    loop = rollouts_with(policy, TransformersEngine(max_new_tokens=3, stop=list("0123456789+*()= ")), Sums())
    return loop.rollout([Prompt(id="a", text=""), Prompt(id="b", text="")], 2)


def test_a_cell_has_every_message_in_a_line_of_its_own_with_its_author() -> None:
    rollout = played()
    head, _, *rows = completions_table(rollout, 4, author=Sums.author).splitlines()
    assert head.startswith("conversation | finish | tokens")
    assert len(rows) == 4
    for row, episode in zip(rows, rollout.episodes, strict=True):
        said = [re.sub(r"\*\*", "", line) for line in row.split(" | ")[0].split("<br>")]
        authors = ["user", *(name for _ in range(episode.turns) for name in ("policy", "teacher"))]
        assert said == [f"{author} `{message['content']}`" for author, message in zip(authors, episode.messages, strict=False)]
        assert row.count("**policy**") == episode.turns >= 1


def test_the_terminal_marks_the_turns_of_the_policy() -> None:
    rollout = played()
    text = terminal_lines(rollout, 1, author=Sums.author)
    episode = rollout.episodes[0]
    marked = [line for line in text.splitlines() if re.match(r"\s+> policy ", line)]
    assert len(marked) == episode.turns
    assert text.count("teacher") == len(episode.messages) - 1 - episode.turns
