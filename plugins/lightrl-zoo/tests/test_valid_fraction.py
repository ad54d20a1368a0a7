"""Groups are replaced until enough of them have a signal."""

import pytest
from lightrl_workshop import ScriptedCollection
from lightrl_zoo import ValidFractionSampler


def test_a_batch_with_enough_signal_is_left_alone() -> None:
    collection = ScriptedCollection(5, zero_variance=[0, 3])
    scored = ValidFractionSampler(group_size=2).collect(collection)
    assert sorted({p.answer for p in scored.prompts}) == [0, 1, 2, 3, 4]
    assert collection.reports == {"sampling/rounds": [1], "sampling/valid_fraction": [pytest.approx(0.6)]}


def test_otherwise_groups_without_are_replaced_and_the_batch_stays_full() -> None:
    """Of 5 only prompt 4 has a signal; of the 4 drawn in their place 5 and 6 have none."""
    collection = ScriptedCollection(5, zero_variance=[0, 1, 2, 3, 5, 6])
    scored = ValidFractionSampler(group_size=2).collect(collection)
    assert [p.answer for p in scored.prompts][::2] == [4, 7, 8, 5, 6]
    assert len(scored) == 10
    assert collection.reports["sampling/rounds"] == [2]


def test_after_the_last_round_the_batch_is_taken_as_it_is() -> None:
    collection = ScriptedCollection(2, zero_variance=range(100))
    scored = ValidFractionSampler(group_size=2, max_rounds=3).collect(collection)
    assert [p.answer for p in scored.prompts][::2] == [4, 5]
    assert collection.reports == {"sampling/rounds": [3], "sampling/valid_fraction": [0.0]}


def test_the_metric_must_be_a_reward() -> None:
    with pytest.raises(ValueError, match=r"'accuracy'.*score"):
        ValidFractionSampler(metric="accuracy").collect(ScriptedCollection(2))


@pytest.mark.parametrize("wrong", [{"group_size": 1}, {"least": 0.0}, {"least": 1.5}, {"max_rounds": 0}])
def test_impossible_settings_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ValidFractionSampler(**wrong)
