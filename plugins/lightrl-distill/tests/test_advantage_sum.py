"""A weighted sum of advantages: by hand, over ranks, and what it asks of a run."""

from dataclasses import replace

import pytest
import torch
from lightrl_distill import AdvantageSum
from lightrl_workshop.experience import experience
from lightrl_workshop.ranks import on_ranks

from lightrl import GAE, DiscountedReturn, Experience, GroupCentered, GroupNormalized, GroupRelative, GroupSampler

REWARDS = [1.0, 0.0, 4.0, 0.0]
"""Of two groups; centred: 1/2, -1/2, 2, -2."""


def rows(**more: object) -> Experience:
    return experience(REWARDS, lengths=[1, 1, 2, 1], group=[0, 0, 1, 1], **more)


def per_row(advantages: torch.Tensor) -> list[float]:
    """The advantage on each row's last sampled token."""
    return [row[row != 0][-1].item() if (row != 0).any() else 0.0 for row in advantages]


def test_advantages_are_weighed_and_added() -> None:
    found = AdvantageSum({"centred": GroupCentered(), "plain": DiscountedReturn()}, weights={"plain": 0.5}).compute(rows())
    assert per_row(found.advantages) == pytest.approx([0.5 + 0.5, -0.5, 2 + 2, -2])


def test_with_a_scale_each_is_divided_by_its_root_mean_square_over_tokens() -> None:
    """Five tokens: the squares of the centred rewards add up to 1/4 + 1/4 + 4 + 4 + 4, those of the returns to 1 + 16 + 16."""
    part = AdvantageSum({"centred": GroupCentered(), "plain": DiscountedReturn()}, weights={"plain": 2}, scale="batch")
    centred, plain = (12.5 / 5) ** 0.5, (33 / 5) ** 0.5
    found = part.compute(rows())
    assert per_row(found.advantages) == pytest.approx([0.5 / centred + 2 / plain, -0.5 / centred, 2 / centred + 8 / plain, -2 / centred])
    assert found.statistics["advantages/plain/rms"].tolist() == pytest.approx([plain] * 4)


def test_two_ranks_scale_alike() -> None:
    def part() -> AdvantageSum:
        return AdvantageSum({"centred": GroupCentered(), "plain": DiscountedReturn()}, scale="batch")

    whole = part().compute(rows()).advantages
    found = on_ranks(2, lambda rank, ranks: part().compute(replace(rows().select([2 * rank, 2 * rank + 1]), ranks=ranks)).advantages)
    torch.testing.assert_close(torch.cat(found), whole)


def test_what_is_zero_everywhere_stays_zero() -> None:
    equal = experience([1.0, 1.0], group=[0, 0])
    assert (AdvantageSum({"centred": GroupCentered()}, scale="batch").compute(equal).advantages == 0).all()


def test_it_asks_for_what_its_advantages_ask_for() -> None:
    both = AdvantageSum({"critic": GAE(), "group": GroupNormalized()})
    assert both.needs == {"values"}
    assert both.compares
    assert both.compute(rows(values=torch.zeros_like(rows().token_rewards))).returns is not None
    without = AdvantageSum({"critic": GAE(), "group": GroupNormalized()}, weights={"critic": 0})
    assert without.needs == frozenset()


def test_a_group_of_one_is_refused_where_one_of_them_compares() -> None:
    with pytest.raises(ValueError, match=r"AdvantageSum compares completions of one prompt.*group_size"):
        GroupRelative(sampler=GroupSampler(1), advantage=AdvantageSum({"group": GroupNormalized(), "plain": DiscountedReturn()}))


@pytest.mark.parametrize(
    ("advantages", "weights", "message"),
    [
        ({}, None, "advantages is empty: name at least one"),
        ({"one": GAE(), "other": GAE()}, None, "one, other each fit the critic"),
        ({"one": GAE()}, {"on": 1.0}, r"names \['on'\], and the advantages are one"),
        ({"one": GAE()}, {"one": 0.0}, "are all 0"),
    ],
    ids=["none", "two critics", "unknown", "nothing"],
)
def test_impossible_sums_are_refused(advantages: dict[str, object], weights: dict[str, float] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdvantageSum(advantages, weights)
