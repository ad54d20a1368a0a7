import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightrl.data.tasks import Addition, DigitSorting, Reversal
from lightrl.policy.tiny import ALPHABET

TASKS = [DigitSorting(examples=500), Reversal(examples=500), Addition(examples=500)]


@pytest.mark.parametrize("task", TASKS, ids=lambda t: type(t).__name__)
def test_prompts_are_distinct_writable_and_the_same_every_time(task: DigitSorting) -> None:
    prompts = [task.prompt(i) for i in range(task.size)]
    assert len({p.id for p in prompts}) == len({p.text for p in prompts}) == 500
    assert set("".join(f"{p.text}{p.answer}" for p in prompts)) <= set(ALPHABET)
    assert prompts == [type(task)(examples=500).prompt(i) for i in range(500)]
    assert prompts != [type(task)(examples=500, seed=1).prompt(i) for i in range(500)]


@given(st.integers(0, 499))
def test_answers_are_right(index: int) -> None:
    sort, reverse, add = (task.prompt(index) for task in TASKS)
    digits = sort.text[:-1]
    assert sort.id == f"sort6:{digits}"
    assert sort.answer == "".join(sorted(digits))
    assert reverse.answer == reverse.text[:-1][::-1]
    left, right = add.text[:-1].split("+")
    assert int(left) + int(right) == int(add.answer)


def test_every_prompt_there_is() -> None:
    assert {DigitSorting(length=2, examples=100).prompt(i).text for i in range(100)} == {f"{n:02d}=" for n in range(100)}


@pytest.mark.parametrize(
    ("task", "arguments", "words"),
    [
        (DigitSorting, {"length": 2, "examples": 101}, "examples <= 100"),
        (DigitSorting, {"examples": 0}, "examples >= 1"),
        (Reversal, {"length": 19}, "length <= 18"),
        (Addition, {"digits": 0}, "1 <= digits <= 9"),
    ],
)
def test_impossible_tasks_are_refused(task: type[DigitSorting], arguments: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        task(**arguments)
