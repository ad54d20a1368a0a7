from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_text import Length

from lightrl import Prompt, Rollout


def rollout(lengths: list[int], completions: list[str]) -> Rollout:
    """Rows of one prompt token and these many sampled ones."""
    import torch

    positions = torch.arange(1 + max(lengths))
    response = (positions >= 1) & (positions <= torch.tensor(lengths)[:, None])
    return Rollout(
        prompts=[Prompt(id="p", text="?")] * len(lengths),
        completions=completions,
        input_ids=torch.zeros(response.shape, dtype=torch.long),
        attention_mask=positions <= torch.tensor(lengths)[:, None],
        response_mask=response,
        rollout_logprobs=torch.zeros(response.shape),
        group=torch.zeros(len(lengths), dtype=torch.long),
        finish_reason=["stop"] * len(lengths),
        policy_version=torch.zeros(len(lengths), dtype=torch.long),
        temperature=1.0,
    )


def test_tokens_by_hand() -> None:
    lengths = [0, 5, 9, 10, 11, 15, 20, 40]
    given = rollout(lengths, ["x"] * len(lengths))
    assert Length(target=10).score(given).tolist() == pytest.approx([-1.0, -0.5, -0.1, 0.0, -0.1, -0.5, -1.0, -1.0])
    assert Length(target=10, tolerance=2, long=2.0, short=0.0).score(given).tolist() == pytest.approx([0, 0, 0, 0, 0, -0.6, -1.6, -2.0])


def test_characters_count_the_text() -> None:
    given = rollout([3, 3, 3], ["", "abcd", "abcdef"])
    assert Length(target=4, unit="characters").score(given).tolist() == pytest.approx([-1.0, 0.0, -0.5])


@given(st.integers(1, 30), st.integers(0, 10), st.floats(0, 3), st.floats(0, 3))
def test_nearer_is_never_worse(target: int, tolerance: int, long: float, short: float) -> None:
    scores = Length(target, tolerance, long, short).score(rollout(list(range(80)), [""] * 80)).tolist()
    assert all(a <= b + 1e-6 for a, b in pairwise(scores[: target + 1]))
    assert all(a >= b - 1e-6 for a, b in pairwise(scores[target:]))
    assert scores[target] == 0.0
    assert min(scores) >= -max(long, short) - 1e-6


def test_padding_is_not_length() -> None:
    given = rollout([4, 2], ["", ""])
    assert Length(target=4).score(given).tolist() == Length(target=4).score(given.padded(20)).tolist()
    assert Length(target=4).score(replace(given, completions=["x" * 99] * 2)).tolist() == [0.0, -0.5]


@pytest.mark.parametrize(
    "arguments", [{"target": 0}, {"target": 5, "tolerance": -1}, {"target": 5, "long": -1.0}, {"target": 5, "short": -0.1}]
)
def test_what_cannot_be_asked_for(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Length"):
        Length(**arguments)
