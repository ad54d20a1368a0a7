"""Episodes of an environment with a policy that says prepared things."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lightrl.environments.episode_host import EpisodeAnswer, EpisodeHost
from lightrl.parts.environment import Environment
from lightrl.prompt import Prompt
from lightrl_workshop.checks.check import BrokenContract, expect

PLAIN = ("42", "yes", "I choose 7.", "a b c", "no")
"""Turns that a policy could say."""
ODD = ("", " \n", "\x00\ufffd\u200b", "}{[<|im_end|>", '<tool_call>{"name": 7}</tool_call>', "9" * 5000, "你好 🙂 ñ")
"""Turns that an untrained policy says."""
TURNS = 6
"""Turns of an episode at most."""


@contextmanager
def hosted(part: Environment) -> Iterator[EpisodeHost]:
    """A host of the part as it stands, closed afterwards."""
    host = EpisodeHost(part)
    try:
        yield host
    except RuntimeError as error:
        raise BrokenContract(str(error)) from error
    finally:
        host.close()


def inline(part: Environment) -> Environment:
    """The part without worker processes, which have a check of their own."""
    if part.runs == "process":
        part.runs = "inline"
    return part


def played(host: EpisodeHost, prompts: Sequence[Prompt], seeds: Sequence[int], said: Sequence[str]) -> list[list[EpisodeAnswer]]:
    """The answers in episodes side by side, one per prompt: to `begin`, and to each turn up to one that is the last or failed.

    Args:
        host: of the environment.
        prompts: of the episodes.
        seeds: of the episodes.
        said: turns of the policy, the same in every episode.
    """
    numbers = range(len(prompts))
    begun = host.begin(list(zip(numbers, prompts, seeds, strict=True))).result()
    answers = [[answer] for answer in begun]
    for turn in said[: min(TURNS, host.environment.max_turns)]:
        under_way = [i for i in numbers if goes_on(answers[i][-1])]
        for i, answer in zip(under_way, host.reply([(i, turn) for i in under_way]).result(), strict=True):
            answers[i].append(answer)
    host.end(numbers)
    return answers


def goes_on(answer: EpisodeAnswer) -> bool:
    """The policy may say something after this answer."""
    return answer.error is None and (answer.reply is None or not answer.reply.done)


def without_time(answers: Sequence[EpisodeAnswer]) -> list[object]:
    """The answers without the seconds that they took."""
    return [answer.said if answer.reply is None else tuple(answer.reply) for answer in answers]


def expect_answers(answers: Sequence[EpisodeAnswer], prompt: Prompt, seed: int, said: Sequence[str]) -> None:
    """No answer is a failure."""
    for turn, answer in enumerate(answers):
        call = f"begin() in the episode of prompt {prompt.id!r}" if turn == 0 else f"reply() to {said[turn - 1][:40]!r}"
        expect(answer.error is None, f"{call} fails: {answer.error}", prompt=prompt, seed=seed)
