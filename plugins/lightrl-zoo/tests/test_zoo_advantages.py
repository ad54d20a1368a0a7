"""Advantages of the zoo, by hand."""

import pytest
import torch
from lightrl_workshop.experience import PROMPT, experience
from lightrl_zoo import GroupCenteredScaled, LengthAdaptiveGAE

from lightrl import GAE


def per_row(rewards: list[float], **more) -> list[float]:
    rows = experience(rewards, **more)
    return GroupCenteredScaled().compute(rows).advantages[:, PROMPT].tolist()


def test_gpg_scales_by_rows_in_groups_with_a_signal() -> None:
    """One of two groups has zero variance: alpha 2 on half a reward."""
    assert per_row([1.0, 0.0, 1.0, 1.0], group=[0, 0, 1, 1]) == pytest.approx([1, -1, 0, 0])


def test_gpg_does_not_count_rewards_that_are_not_zero() -> None:
    """verl's alpha, 4 over three rewards that are not 0, would give 2/3; with rewards of +-1 it would be 1 whatever the groups."""
    assert per_row([1.0, 0.0, 1.0, 1.0], group=[0, 0, 1, 1])[0] != pytest.approx(0.666667, abs=1e-3)
    assert per_row([1.0, -1.0, 1.0, 1.0], group=[0, 0, 1, 1]) == pytest.approx([2, -2, 0, 0])


def test_gpg_counts_rows_that_can_be_scored() -> None:
    found = per_row([1.0, 0.0, torch.nan, 1.0, 1.0, 1.0], group=[0, 0, 0, 1, 1, 1], scorable=[True, True, False, True, True, True])
    assert found == pytest.approx([1.25, -1.25, 0, 0, 0, 0])  # alpha = 5 / 2


def test_gpg_without_any_signal_is_silent() -> None:
    assert per_row([0.1] * 4, group=[0, 0, 1, 1]) == [0.0] * 4


@pytest.mark.parametrize(("length", "lam"), [(100, 0.8), (1000, 0.98), (10, 0.0), (20, 0.0), (1, 0.0)])
def test_vapo_lambda(length: int, lam: float) -> None:
    """At 10 tokens 1 - 1 / (.05 l) is -1: it is held at 0."""
    values = torch.zeros(2, PROMPT + length)
    out = LengthAdaptiveGAE().compute(experience([1.0, 0.0], lengths=[length] * 2, values=values))
    assert out.statistics["vapo/lambda"].tolist() == pytest.approx([lam] * 2, abs=1e-6)


def rows(values: torch.Tensor):
    token_rewards = torch.zeros(1, 5)
    token_rewards[0, 2:] = torch.tensor([0.0, 0.022314, 0.953])
    return experience([0.0], lengths=[3], values=values, token_rewards=token_rewards)


def test_vapo_returns_have_lambda_one_and_advantages_their_own() -> None:
    values = torch.zeros(1, 5)
    values[0, 2:] = torch.tensor([0.2, 0.3, 0.5])
    out = LengthAdaptiveGAE(whitened=False).compute(rows(values))
    assert out.returns[0, 2:].tolist() == pytest.approx([0.975314, 0.975314, 0.953], abs=1e-5)
    assert out.advantages[0, 2:].tolist() == pytest.approx([0.1, 0.222314, 0.453], abs=1e-5)  # lambda 0: delta
    same = LengthAdaptiveGAE(alpha=1 / 3 / 0.05, whitened=False).compute(rows(values)).advantages
    assert torch.allclose(same, GAE(lam=0.95, whitened=False).compute(rows(values)).advantages, atol=1e-6)


def test_vapo_whitens_over_tokens() -> None:
    values = torch.rand(1, 5, generator=torch.Generator().manual_seed(0))
    out = LengthAdaptiveGAE().compute(rows(values)).advantages[0, 2:]
    assert out.mean().item() == pytest.approx(0, abs=1e-6)
    assert out.std().item() == pytest.approx(1, abs=1e-5)


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(ValueError, match="alpha"):
        LengthAdaptiveGAE(alpha=0)
    with pytest.raises(ValueError, match="critic"):
        LengthAdaptiveGAE().compute(experience([1.0, 0.0]))
