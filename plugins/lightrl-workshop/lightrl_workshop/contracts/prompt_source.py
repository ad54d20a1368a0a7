"""The contract of every prompt source."""

from __future__ import annotations

import json

from lightrl.parts.prompts import PromptSource
from lightrl.types import Prompt
from lightrl_workshop.checks.check import Make, contract_check, expect

KIND = "prompt source"
SOME = 50
"""Prompts looked at, at most."""


@contract_check(KIND, "the same number gives the same prompt, always")
def stable(make: Make[PromptSource]) -> None:
    one, other = make(), make()
    one.prepare()
    other.prepare()
    count = SOME if one.size is None else min(SOME, one.size)
    expect(count > 0, "it has no prompt")
    forth, back = [one.prompt(i) for i in range(count)], [other.prompt(i) for i in reversed(range(count))][::-1]
    for i, (first, second) in enumerate(zip(forth, back, strict=True)):
        expect(first == second, f"prompt {i} is {first} or {second}")
    ids = [prompt.id for prompt in forth]
    expect(len(set(ids)) == count, f"ids are not unique: {sorted({i for i in ids if ids.count(i) > 1})}")


@contract_check(KIND, "its prompts are JSON values")
def plain(make: Make[PromptSource]) -> None:
    part = make()
    part.prepare()
    for i in range(min(3, part.size or 3)):
        prompt = part.prompt(i)
        again = Prompt.from_json(json.loads(json.dumps(prompt.to_json())))
        expect(again.to_json() == prompt.to_json(), f"prompt {i} is {prompt}, and after JSON {again}")
