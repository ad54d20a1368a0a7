"""The baseline is the mean in which a completion weighs its length."""

import pytest
import torch
from lightrl_opo import OPO, LengthWeighted
from lightrl_workshop.experience import experience


def test_numbers_computed_by_hand() -> None:
    rows = experience(rewards=[1.0, 0.0, 0.5], lengths=[2, 6, 2], group=[0, 0, 0])
    # (2 * 1 + 6 * 0 + 2 * 0.5) / 10 = 0.3
    assert LengthWeighted().compute(rows).advantages.amax(1).tolist()[0] == pytest.approx(0.7)
    assert LengthWeighted().compute(rows).advantages.sum(1).tolist() == pytest.approx([2 * 0.7, 6 * -0.3, 2 * 0.2])
    assert float(LengthWeighted().compute(rows).advantages.sum()) == pytest.approx(0.0, abs=1e-6)


def test_equal_lengths_give_the_plain_mean() -> None:
    rows = experience(rewards=[1.0, 0.0, 0.0, 1.0], lengths=[3, 3, 3, 3], group=[0, 0, 0, 0])
    found = LengthWeighted().compute(rows).advantages
    assert torch.equal(found.abs().amax(1), torch.full((4,), 0.5))


def test_nothing_ties_it_to_older_policies() -> None:
    made = OPO()
    assert made.kl is None
    assert not made.clip.bounded
    assert made.epochs == made.minibatches == 1
