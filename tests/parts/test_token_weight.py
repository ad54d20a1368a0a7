import pytest
import torch
from lightrl_workshop.experience import experience

from lightrl import GroupCentered, GroupRelative, TokenWeight
from lightrl.parts.token_weight import MaskTruncated
from lightrl.ranks import ALONE
from lightrl.training.online.experience import with_advantages
from lightrl.types import Experience


def test_a_truncated_row_carries_no_loss_at_all() -> None:
    rows = experience([1.0, 0.0, 1.0], lengths=[1, 3, 2], finish_reason=["stop", "length", "turns"])
    assert MaskTruncated().weights(rows).amax(1).tolist() == [1, 0, 1]
    assert MaskTruncated(turns=True).weights(rows).amax(1).tolist() == [1, 0, 0]
    assert MaskTruncated().weights(rows).shape == rows.token_rewards.shape


def test_its_reward_stays_in_the_statistics_of_its_group_unless_told_otherwise() -> None:
    def of_first_tokens(token_weight: TokenWeight) -> list[float]:
        rows = experience([1.0, 0.0, -3.0], finish_reason=["stop", "stop", "length"])
        algorithm = GroupRelative(advantage=GroupCentered(), token_weight=token_weight)
        found, _ = with_advantages(rows, algorithm, ALONE, 0)
        assert found.scorable.all()
        return found.advantages[:, 2].tolist()

    assert of_first_tokens(MaskTruncated()) == pytest.approx([5 / 3, 2 / 3, -7 / 3])
    assert of_first_tokens(MaskTruncated(drop_from_statistics=True)) == [0.5, -0.5, 0.0]


def test_an_episode_at_the_limit_of_turns_leaves_the_statistics_only_where_both_are_asked_for() -> None:
    rows = experience([1.0, 0.0, 2.0], finish_reason=["stop", "length", "turns"])
    assert MaskTruncated(turns=True).in_statistics(rows).tolist() == [True, True, True]
    assert MaskTruncated(drop_from_statistics=True).in_statistics(rows).tolist() == [True, False, True]
    assert MaskTruncated(drop_from_statistics=True, turns=True).in_statistics(rows).tolist() == [True, False, False]


def test_every_row_counts_where_a_token_weight_does_not_say() -> None:
    class Halved(TokenWeight):
        def weights(self, experience: Experience) -> torch.Tensor:
            return torch.full_like(experience.token_rewards, 0.5)

    assert Halved().in_statistics(experience([1.0, 0.0])).tolist() == [True, True]
