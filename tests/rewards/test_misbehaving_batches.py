"""Rewards of whole rollouts that misbehave, and what any reward may report wrongly."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from lightrl import BatchReward, Rollout, Statistic, WithStatistics
from lightrl.parts.base import FaultyPartError
from lightrl.types import Outcome


class Says(BatchReward):
    """Returns what a function makes of the rollout."""

    def __init__(self, deed: Callable[[Rollout], Any]) -> None:
        super().__init__()
        self.deed = deed
        self.told: dict[str, Any] = {}

    def score(self, rollout: Rollout) -> Any:
        return self.deed(rollout)

    def counts(self) -> Any:
        return self.told


def overwrite(rollout: Rollout) -> torch.Tensor:
    for value in vars(rollout).values():
        if isinstance(value, torch.Tensor):
            value.zero_()
        elif isinstance(value, list):
            value.reverse()
    for prompt in rollout.prompts:
        prompt.columns["level"][0] = 9  # type: ignore[index]
    rollout.temperature = 0.0
    return torch.ones(len(rollout))


def test_what_it_writes_into_the_rollout_is_not_trained_on(reward_set: Any, texts: Any) -> None:
    rollout = texts(["a", "b", "c"], level=[1])
    before = copy.deepcopy(rollout)
    scored = reward_set({"it": Says(overwrite), "other": Says(lambda r: torch.tensor([float(p.columns["level"][0]) for p in r.prompts]))})
    scored = scored.score(rollout)
    assert scored.reward_parts["it"].tolist() == scored.reward_parts["other"].tolist() == [1.0, 1.0, 1.0]
    for name, value in vars(before).items():
        for found in (getattr(rollout, name), getattr(scored, name)):
            assert torch.equal(found, value) if isinstance(value, torch.Tensor) else found == value


def raises(error: BaseException) -> Callable[[Rollout], Any]:
    def deed(rollout: Rollout) -> Any:
        raise error

    return deed


class OwnError(BaseException):
    """No `Exception`."""


@pytest.mark.parametrize(
    "error",
    [OwnError(), GeneratorExit(), SystemExit(0), MemoryError(), RecursionError(), AssertionError(), BaseExceptionGroup("", [OwnError()])],
)
def test_whatever_it_raises_is_the_failure_of_all_rows(error: BaseException, reward_set: Any, texts: Any) -> None:
    scored = reward_set({"it": Says(raises(error))}).score(texts(["a", "b"]))
    assert scored.outcomes["it"].tolist() == [Outcome.ERROR] * 2


LATE = torch.ones(2)
WRONG: dict[str, tuple[Callable[[Rollout], Any], str]] = {
    "complex": (lambda r: torch.ones(2, dtype=torch.complex64), r"returned a complex tensor of shape \[2\]"),
    "sparse": (lambda r: torch.ones(2).to_sparse(), "returned a sparse tensor"),
    "nowhere": (lambda r: torch.ones(2, device="meta"), "returned a meta tensor"),
    "a number": (lambda r: 1.0, "returned a float, expected a tensor"),
    "a column": (lambda r: torch.ones(2, 1), r"of shape \[2, 1\]"),
    "nothing": (lambda r: None, "returned a NoneType"),
    "a statistic that is a number": (lambda r: WithStatistics(torch.ones(2), {"x": Statistic(1.0)}), "reports 'x' as a float"),  # type: ignore[arg-type]
    "a statistic that is text": (lambda r: WithStatistics(torch.ones(2), {"x": "much"}), "reports 'x' as a str"),  # type: ignore[dict-item]
    "a list of statistics": (lambda r: WithStatistics(torch.ones(2), [1]), "reports a list, expected tensors by name"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("deed", WRONG)
def test_what_is_no_tensor_of_scores_is_refused_with_a_message(deed: str, reward_set: Any, texts: Any) -> None:
    does, words = WRONG[deed]
    with pytest.raises(FaultyPartError, match=words):
        reward_set({"it": Says(does)}).score(texts(["a", "b"]))


def test_what_it_returned_is_its_own_no_more(reward_set: Any, texts: Any) -> None:
    kept = torch.ones(2, requires_grad=True)
    scoring = reward_set({"it": Says(lambda r: WithStatistics(kept, {"x": kept}))}).submit(texts(["a", "b"]))
    scored = scoring.result()
    kept.data.fill_(7.0)
    numbers = scoring.statistics()
    assert scored.reward_parts["it"].tolist() == numbers["rewards/it/x"].value.tolist() == [1.0, 1.0]
    assert not scored.reward_parts["it"].requires_grad
    assert not numbers["rewards/it/x"].value.requires_grad


@pytest.mark.parametrize("told", [{"tokens": "many"}, {"tokens": None}, {"tokens": 10**400}, [1.0], {"tokens": torch.ones(2)}])
def test_counts_that_are_no_numbers_are_refused_with_a_message(told: Any, reward_set: Any, texts: Any) -> None:
    reward = Says(lambda r: torch.ones(2))
    reward.told = told
    scoring = reward_set({"it": reward}).submit(texts(["a", "b"]))
    scoring.result()
    with pytest.raises(FaultyPartError, match=r"reward 'it' counts .*expected numbers by name"):
        scoring.statistics()
