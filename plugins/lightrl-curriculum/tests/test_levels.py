"""Levels of reasoning-gym as the sources of a mixture."""

from __future__ import annotations

import pytest
from lightrl_curriculum import EdgeSampler, Mixture
from lightrl_workshop import ScriptedCollection, learnt_from

from lightrl import PromptData
from lightrl.ranks import ALONE

pytest.importorskip("reasoning_gym")


class Levels(ScriptedCollection):
    """The prompts are those of a data module."""

    def __init__(self, data: PromptData) -> None:
        super().__init__(prompts=6, scores=[[0.0, 1.0]])
        self.data, self.size = data, data.size

    def draw(self, n: int) -> list:
        return self.data.draw(n)

    def prompt(self, name: str):
        return self.data.prompt(name)

    def _score(self, row: int, prompt: object, completion: str) -> float:
        return float(row % 2)


def test_each_level_has_a_rate_of_its_own() -> None:
    from lightrl_reasoning_gym import ReasoningGym

    levels = {f"level{i}": ReasoningGym("chain_sum", size=20, level=i, chat=False) for i in range(3)}
    data = PromptData(Mixture(levels, dict.fromkeys(levels, 1.0)))
    sampler = EdgeSampler(2, candidates=1, level="source")
    sampler.commit(learnt_from(sampler.collect(Levels(data))), ALONE)
    assert sampler.state_dict()["levels"] == {f'"{name}"': [2, 2] for name in levels}
    assert all(name.partition("/")[0] in levels for name in sampler.state_dict()["prompts"])
