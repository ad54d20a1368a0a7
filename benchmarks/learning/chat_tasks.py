"""Three tasks for a small chat model, of which it can do a part: sums, products of reasoning-gym, and a calculator that it may call."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lightrl_code import ToolEnvironment
from lightrl_reasoning_gym import ReasoningGym, ReasoningGymScore

from lightrl import Environment, Function, LoadedPolicy, PolicySource, PretrainedPolicy, Prompt, PromptSource, RowReward, SingleTurn

SPLIT_SEED = 0
"""Of what is held out: the same for every seed of a run."""
TEMPLATE = """\
{%- if tools %}<|im_start|>system
You can call {% for tool in tools %}{{ tool.function.name }}({{ tool.function.parameters.properties | join(', ') }}): \
{{ tool.function.description }} {% endfor %}A call is written [add(2, 3)] and nothing else.<|im_end|>
{% endif %}{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""ChatML that shows tools, for models whose own template knows none; a call has 10 tokens, where one in JSON has 33."""


class Listed(PromptSource):
    """Prompts in a list."""

    def __init__(self, prompts: Sequence[Prompt]) -> None:
        """
        Args:
            prompts: in order; with different ids.
        """
        self.prompts = list(prompts)

    @property
    def size(self) -> int:
        return len(self.prompts)

    def prompt(self, index: int) -> Prompt:
        return self.prompts[index]


@dataclass(frozen=True)
class ChatTask:
    """What the policy is asked, and how its answers are scored."""

    train: Listed
    """Prompts that are learnt from."""
    held_out: Listed
    """Prompts that are measured; what mirrors one of them is not in `train`."""
    reward: RowReward
    """1 for a right answer; one that is below 0.99 is not right."""
    tokens: int
    """Most tokens of a turn."""
    turns: int = 1
    """Most turns of an episode."""
    environment: Environment = field(default_factory=SingleTurn)
    """Answers the policy."""
    template: str | None = None
    """In place of the model's own."""

    @property
    def longest(self) -> int:
        """Most tokens that the policy writes in an episode."""
        return self.tokens * self.turns


def chat(name: str, question: str, answer: str, **columns: Any) -> Prompt:
    """A question of the user, and columns of the data."""
    return Prompt(id=name, messages=({"role": "user", "content": question},), answer=answer, columns=columns)


def last_number(completion: str) -> str:
    """The last number; empty if there is none."""
    return (re.findall(r"-?\d+", completion) or [""])[-1]


def right(completion: str, answer: str) -> float:
    """1 if the last number is the answer."""
    return float(last_number(completion) == answer)


def pairs() -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Two digits from 1 to 9, the smaller one first: 31 pairs to train on, and 14 held out."""
    every = list(itertools.combinations_with_replacement(range(1, 10), 2))
    random.Random(SPLIT_SEED).shuffle(every)
    return every[14:], every[:14]


def orders(of: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs in both orders."""
    return sorted({order for a, b in of for order in ((a, b), (b, a))})


def sums() -> ChatTask:
    """Sums of two digits; where 3 + 8 is held out, so is 8 + 3."""
    asked = [
        Listed([chat(f"{a} + {b}", f"What is {a} + {b}? Answer with only the number.", str(a + b)) for a, b in orders(part)])
        for part in pairs()
    ]
    return ChatTask(*asked, reward=Function.of(right), tokens=12)


class LastNumberScore(ReasoningGymScore):
    """The task's own score of the last number: a model that is small writes no tags."""

    def answer_in(self, completion: str) -> str | None:
        """The last number; None if there is none."""
        return last_number(completion) or None


PRODUCTS = "products"
"""A task of reasoning-gym."""


def products() -> ChatTask:
    """The questions of reasoning-gym's `products` with two factors of one digit; where 3 * 8 is held out, so is 8 * 3."""
    source = ReasoningGym(PRODUCTS, size=1000, config={"max_digits": 1}, system="Answer with only the number.")
    source.prepare()
    questions = {prompt.columns["metadata"]["expression"]: prompt for prompt in map(source.prompt, range(source.size))}
    of = {expression: tuple(sorted(expression.split(" * "))) for expression in questions}
    factors = sorted(set(of.values()))
    random.Random(SPLIT_SEED).shuffle(factors)
    held = set(factors[: len(factors) // 4])
    parts = [[questions[e] for e in sorted(questions) if (of[e] in held) is wanted] for wanted in (False, True)]
    return ChatTask(*map(Listed, parts), reward=LastNumberScore(tag=None, unreadable=0.0, runs="inline"), tokens=16)


def numbers(count: int, seed: int) -> list[tuple[int, int]]:
    """Different pairs of two numbers of two digits."""
    return random.Random(seed).sample(list(itertools.product(range(10, 100), repeat=2)), count)


HELD_OUT_SUMS = 28


def calculator() -> ChatTask:
    """Sums of two numbers of two digits, which the model cannot do, and a tool that can; no reward for a call."""
    drawn = numbers(600, SPLIT_SEED)
    mirrored = {pair for a, b in drawn[:HELD_OUT_SUMS] for pair in ((a, b), (b, a))}
    parts = [[pair for pair in drawn[HELD_OUT_SUMS:] if pair not in mirrored], drawn[:HELD_OUT_SUMS]]
    asked = [Listed([chat(f"{a} + {b}", f"What is {a} + {b}?", str(a + b)) for a, b in part]) for part in parts]
    tools = ToolEnvironment(["lightrl_code.arithmetic.add"], call_format="python", max_result_chars=60, max_turns=3, slices=1)
    return ChatTask(*asked, reward=Function.of(right), tokens=14, turns=3, environment=tools, template=TEMPLATE)


TASKS: dict[str, Callable[[], ChatTask]] = {"sums": sums, PRODUCTS: products, "calculator": calculator}
"""Those of the online algorithms, by name."""


def source_of(model: PolicySource, template: str | None) -> PolicySource:
    """A policy as it is, or with another chat template.

    Args:
        model: says where it comes from.
        template: the other one.
    """
    if template is None:
        return model
    if isinstance(model, PretrainedPolicy):
        return PretrainedPolicy(model.path, chat_template=template)
    policy = model.build()
    policy.tokenizer.chat_template = template
    return LoadedPolicy(policy.model, policy.tokenizer)
