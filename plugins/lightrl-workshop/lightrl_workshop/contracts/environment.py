"""The contract of every environment, tried in episodes with a policy that says prepared things."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lightrl.environments.episode_host import EpisodeAnswer, EpisodeHost
from lightrl.parts.environment import AsyncEnvironment, Environment, declared_extras
from lightrl.prompt import Prompt
from lightrl_workshop.checks.check import BrokenContract, Make, contract_check, expect

PLAIN = ("42", "yes", "I choose 7.", "a b c", "no")
"""Turns that a policy could say."""
ODD = ("", " \n", "\x00\ufffd\u200b", "}{[<|im_end|>", '<tool_call>{"name": 7}</tool_call>', "9" * 5000, "你好 🙂 ñ")
"""Turns that an untrained policy says."""
KIND = "environment"
SEEDS = (0, 1, 2**31 - 1)
"""Seeds that are tried."""


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
    """The answers in episodes side by side, one per prompt: to `begin`, and to each turn up to one that is the last or failed."""
    numbers = range(len(prompts))
    begun = host.begin(list(zip(numbers, prompts, seeds, strict=True))).result()
    answers = [[answer] for answer in begun]
    for turn in said[: host.environment.max_turns]:
        under_way = [i for i in numbers if goes_on(answers[i][-1])]
        for i, answer in zip(under_way, host.reply([(i, turn) for i in under_way]).result(), strict=True):
            answers[i].append(answer)
    host.end(numbers)
    return answers


def staggered(host: EpisodeHost, prompts: Sequence[Prompt], seeds: Sequence[int], said: Sequence[str]) -> list[list[EpisodeAnswer]]:
    """The answers in episodes of which each begins a turn later than the one before it."""
    answers: list[list[EpisodeAnswer]] = []
    turns = said[: host.environment.max_turns]
    for round_ in range(len(prompts) + len(turns)):
        for i in range(min(round_, len(answers))):
            if len(answers[i]) <= len(turns) and goes_on(answers[i][-1]):
                answers[i] += host.reply([(i, turns[len(answers[i]) - 1])]).result()
        if round_ < len(prompts):
            answers.append(host.begin([(round_, prompts[round_], seeds[round_])]).result())
    host.end(range(len(prompts)))
    return answers


def episode(make: Make[Environment], prompt: Prompt, seed: int, said: Sequence[str] = PLAIN) -> list[EpisodeAnswer]:
    """The answers in one episode of a new instance, in this process."""
    with hosted(inline(make())) as host:
        return played(host, [prompt], [seed], said)[0]


def said_in(part: Environment) -> set[str]:
    """The characters that it says in an episode of each of its example prompts, and those of the prompts."""
    said = [
        [(answer.said, answer.reply) for answer in of] for p in part.example_prompts() for of in episodes(lambda: copy.deepcopy(part), p, 0)
    ]
    return set(str(said) + str(part.example_prompts()))


def scripts(make: Make[Environment], prompt: Prompt, seed: int) -> list[Sequence[str]]:
    """The turns of episodes: any ones, and those that the environment gives as an example."""
    return [PLAIN, *([turns] if (turns := make().example_turns(prompt, seed)) else [])]


def episodes(make: Make[Environment], prompt: Prompt, seed: int) -> list[list[EpisodeAnswer]]:
    """The answers in an episode of each script."""
    return [episode(make, prompt, seed, said) for said in scripts(make, prompt, seed)]


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


@contract_check(KIND, "begin() gives a text or messages, and reply() a valid Reply")
def valid(make: Make[Environment]) -> None:
    prompts = make().example_prompts()
    expect(len(prompts) > 0, "example_prompts() gives none: give at least one prompt that it can begin with")
    for prompt in prompts:
        for seed in SEEDS:
            for said in scripts(make, prompt, seed):
                expect_answers(episode(make, prompt, seed, said), prompt, seed, said)


@contract_check(KIND, "nothing that a policy says makes it fail")
def odd_turns(make: Make[Environment]) -> None:
    prompt = make().example_prompts()[0]
    for first in range(len(ODD)):
        said = [*ODD[first:], *ODD[:first]]
        expect_answers(episode(make, prompt, 1, said), prompt, 1, said)


@contract_check(KIND, "the same prompt, seed and turns give the same replies")
def repeatable(make: Make[Environment]) -> None:
    """Of two instances, since an episode whose worker was killed is begun again in another."""
    for prompt in make().example_prompts():
        first, second = ([without_time(answers) for answers in episodes(make, prompt, 7)] for _ in range(2))
        expect(first == second, "the same episode has other replies the second time", prompt=prompt, first=first, second=second)


@contract_check(KIND, "an episode has no influence on another")
def apart(make: Make[Environment]) -> None:
    """Copies share nothing, and episodes side by side answer as they do alone, those that begin while others go on too."""
    prompt = make().example_prompts()[0]
    for said in scripts(make, prompt, 7):
        alone = without_time(episode(make, prompt, 7, said))
        for play in (played, staggered):
            with hosted(inline(make())) as host:
                beside = without_time(play(host, [prompt] * 3, [3, 7, 11], said)[1])
            expect(alone == beside, "beside other episodes it replies something else", prompt=prompt, alone=alone, beside=beside)


@contract_check(KIND, "it leaves the prompt as it was")
def prompt_kept(make: Make[Environment]) -> None:
    for prompt in make().example_prompts():
        before = copy.deepcopy(prompt.to_json())
        episodes(make, prompt, 1)
        expect(prompt.to_json() == before, "an episode has changed its prompt", before=before, after=prompt.to_json())


@contract_check(KIND, "without gives_rewards no reply has a reward")
def rewards_are_declared(make: Make[Environment]) -> None:
    """A run may have no other rewards if it is declared."""
    part = make()
    for prompt in part.example_prompts():
        replies = [answer.reply for answers in episodes(make, prompt, 1) for answer in answers if answer.reply is not None]
        given = [reply.reward for reply in replies if reply.reward is not None]
        expect(part.gives_rewards or not given, "reply() gives rewards: set gives_rewards = True in the class", rewards=given)


@contract_check(KIND, "its replies give the extras that it declares, each of them in some reply")
def extras_are_declared(make: Make[Environment]) -> None:
    part, given = make(), set[str]()
    both = sorted(part.gives & part.gives_per_turn)
    expect(not both, f"{', '.join(both)} is in gives, of the episode, and in gives_per_turn, of a turn: keep it in one of them")
    for prompt in part.example_prompts() if declared_extras(part) else ():
        for answers in [answers for seed in SEEDS for answers in episodes(make, prompt, seed)]:
            given |= {name for answer in answers if answer.reply is not None for name in answer.reply.extras or ()}
    never = sorted(declared_extras(part) - given)
    expect(
        not never, f"the class declares {', '.join(never)}, and no reply gives it: is it misspelt, or do example prompts and turns miss it?"
    )


@contract_check(KIND, "an episode can be ended at any point")
def ends(make: Make[Environment]) -> None:
    prompt = make().example_prompts()[0]
    for turns in range(3):
        with hosted(inline(make())) as host:
            host.begin([(0, prompt, 1)]).result()
            for turn in PLAIN[:turns]:
                host.reply([(0, turn)]).result()
            (answer,) = host.end([0]).result()
        expect(answer.error is None, f"end() after {turns} turns fails: {answer.error}")


@contract_check(KIND, "a worker process can load it, and it replies the same there")
def in_a_worker(make: Make[Environment]) -> None:
    part = make()
    if part.runs != "process":
        return
    prompt = part.example_prompts()[0]
    with hosted(inline(make())) as host:
        here = without_time(played(host, [prompt] * 2, [1, 2], PLAIN)[1])
    with hosted(part) as host:
        there = without_time(played(host, [prompt] * 2, [1, 2], PLAIN)[1])
    expect(here == there, "in a worker process it replies something else", here=here, there=there)


@contract_check(KIND, "in an event loop, it leaves the global random generator alone")
def no_global_numbers(make: Make[Environment]) -> None:
    part = make()
    if not isinstance(part, AsyncEnvironment):
        return
    before = random.getstate()
    with hosted(part) as host:
        played(host, [part.example_prompts()[0]], [1], PLAIN)
    after, _ = random.getstate(), random.setstate(before)
    expect(after == before, "it draws from the global generator of `random`: keep random.Random(seed) in the episode")


@contract_check(KIND, "its tools are JSON values")
def tools(make: Make[Environment]) -> None:
    """They are shown to the policy by its chat template."""
    given = list(make().tools)
    try:
        again = json.loads(json.dumps(given))
    except TypeError as error:
        again = error
    expect(again == given, f"tools are {given!r}, and after JSON {again!r}: give lists and dicts of texts and numbers")
