"""A row of three tokens with a KL in the reward and a critic, by hand."""

import pytest
import torch
from lightrl_workshop.experience import PROMPT, experience

from lightrl.ops.moments import whiten
from lightrl.parts.advantage import GAE, generalised_advantages
from lightrl.parts.kl import KLPenalty

OLD = torch.tensor([[0.5, 0.4, 0.8]]).log()
REFERENCE = torch.tensor([[0.5, 0.5, 0.5]]).log()
MASK = torch.ones(1, 3, dtype=torch.bool)
VALUES = torch.tensor([[0.2, 0.3, 0.5]])


def token_rewards() -> torch.Tensor:
    kl = KLPenalty("k1", reward_coefficient=0.1)
    penalty = kl.penalty(OLD, REFERENCE, torch.zeros(1, 3))
    assert penalty[0].tolist() == pytest.approx([0, -0.223144, 0.470004], abs=1e-5)
    return torch.tensor([[0.0, 0.0, 1.0]]) - kl.reward_coefficient * penalty


def padded(values: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(values, (PROMPT, 1))


def compute(lam: float, whitened: bool):
    rows = experience([1.0], token_rewards=padded(token_rewards()), values=padded(VALUES), padding=1)
    out = GAE(gamma=1.0, lam=lam, whitened=whitened).compute(rows)
    return out.advantages[rows.response_mask].tolist(), out.returns[rows.response_mask].tolist()


def test_token_rewards() -> None:
    assert token_rewards()[0].tolist() == pytest.approx([0, 0.022314, 0.953], abs=1e-5)


@pytest.mark.parametrize(
    ("lam", "advantages", "returns"),
    [
        (0.95, [0.720031, 0.652664, 0.453], [0.920031, 0.952664, 0.953]),
        (1.0, [0.775314, 0.675314, 0.453], [0.975314, 0.975314, 0.953]),
    ],
)
def test_advantages_and_returns(lam: float, advantages: list[float], returns: list[float]) -> None:
    found = compute(lam, whitened=False)
    assert found[0] == pytest.approx(advantages, abs=1e-5)
    assert found[1] == pytest.approx(returns, abs=1e-5)


def test_whitened_advantages_leave_the_returns_alone() -> None:
    advantages, returns = compute(0.95, whitened=True)
    assert advantages == pytest.approx([0.802662, 0.317557, -1.120219], abs=1e-5)
    assert returns == pytest.approx([0.920031, 0.952664, 0.953], abs=1e-5)


def test_whitened_with_the_mean_kept() -> None:
    raw = generalised_advantages(token_rewards(), VALUES, MASK, 1.0, 0.95)
    assert whiten(raw, MASK, shift_mean=False)[0].tolist() == pytest.approx([1.411227, 0.926121, -0.511654], abs=1e-5)


def test_the_last_token_is_followed_by_nothing() -> None:
    """Reward 2, value 5, value 1 of the next state: 2 + .9 - 5 if there is one, 2 - 5 if the answer ends here."""
    rewards, values = torch.tensor([[2.0, 0.0]]), torch.tensor([[5.0, 1.0]])
    going_on = generalised_advantages(rewards, values, torch.tensor([[True, True]]), 0.9, 0.0)
    ended = generalised_advantages(rewards, values, torch.tensor([[True, False]]), 0.9, 0.0)
    assert going_on[0, 0].item() == pytest.approx(-2.1)
    assert ended[0, 0].item() == -3.0


def test_whitened_rewards_keep_their_mean() -> None:
    rows = experience([1.0], token_rewards=padded(token_rewards()), values=padded(torch.zeros(1, 3)), padding=1)
    part = GAE(gamma=0.0, lam=0.0, whitened=False, whitened_rewards=True)
    assert part.compute(rows).advantages[rows.response_mask].tolist() == pytest.approx(
        whiten(token_rewards(), MASK, shift_mean=False)[0].tolist(), abs=1e-6
    )
    found = part.compute(rows).returns[rows.response_mask]
    assert found.mean().item() == pytest.approx(token_rewards().mean().item(), abs=1e-6)
    assert found.std().item() == pytest.approx(1, abs=1e-5)
