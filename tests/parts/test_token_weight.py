from lightrl.parts.token_weight import MaskTruncated
from lightrl.testing.experience import experience


def test_a_truncated_row_carries_no_loss_at_all() -> None:
    rows = experience([1.0, 0.0, 1.0], lengths=[1, 3, 2], finish_reason=["stop", "length", "tool_limit"])
    assert MaskTruncated().weights(rows).amax(1).tolist() == [1, 0, 1]
    assert MaskTruncated().weights(rows).shape == rows.token_rewards.shape


def test_its_reward_stays_in_the_statistics_of_its_group() -> None:
    rows = experience([1.0, 0.0], finish_reason=["stop", "length"])
    MaskTruncated().weights(rows)
    assert rows.scorable.all()
    assert rows.response_mask[1].any()
