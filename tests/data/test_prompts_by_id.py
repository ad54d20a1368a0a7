"""Prompts by their ids: all of those that are trained on, and no other."""

from __future__ import annotations

import pytest

from lightrl import DigitSorting, Prompt, PromptData, PromptSource


class Endless(PromptSource):
    """0, 1, 2, ..."""

    @property
    def size(self) -> None:
        return None

    def prompt(self, index: int) -> Prompt:
        return Prompt(id=str(index), text="x")


def test_every_training_prompt_has_its_id_and_drawing_goes_on_as_before() -> None:
    data, other = PromptData(DigitSorting(2, 60), validation_size=10), PromptData(DigitSorting(2, 60), validation_size=10)
    assert data.size == 50
    assert [data.prompt(prompt.id) for prompt in data.training_prompts()] == list(data.training_prompts())
    assert data.draw(70) == other.draw(70)
    held_out = {f"sort2:{i:02d}" for i in range(100)} - {prompt.id for prompt in data.training_prompts()}
    with pytest.raises(ValueError, match=r"none of the 50 training prompts has the id 'sort2:\d\d'; the first one's is"):
        data.prompt(min(held_out))


def test_prompts_that_were_dropped_have_no_id() -> None:
    data = PromptData(DigitSorting(1, 10), max_prompt_tokens=2)
    data.prompt("sort1:3")
    data.measure(lambda prompt: [0] * (3 if prompt.id == "sort1:3" else 1), None)
    with pytest.raises(ValueError, match="none of the 9 training prompts"):
        data.prompt("sort1:3")


def test_an_endless_source_has_no_ids() -> None:
    with pytest.raises(ValueError, match="an endless training source has no prompts by id"):
        PromptData(Endless()).prompt("1")
