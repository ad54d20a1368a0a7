"""A replay without weights: the gradient of every token's log-prob, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from lightrl_runs.records.packed_rows import pack
from lightrl_runs.records.record import EngineFacts, Record, notes_of, record_of
from lightrl_runs.replay.outcome import Outcome, cosine
from lightrl_runs.replay.without_weights import first_pass
from lightrl_workshop.experience import experience

from lightrl import ActorCritic, EntropyBonus, ExactMatch, GroupCentered, GroupRelative, GroupSampler, KLPenalty, SequenceMean, TokenMean
from lightrl.rewards.reward_set import RewardSet

LENGTHS = [1, 3, 2, 2]
TOLD: dict[str, Any] = {
    "rank": 0, "ranks": 1, "steps": 0, "rollout": 1, "algorithm": "GroupRelative", "checkpoint": "", "numbers": {},
    "engine": EngineFacts("TransformersEngine", True, True, True),
}  # fmt: skip


def record(scores: list[float], **changes: Any) -> Record:
    """Two groups of two rows with these scores."""
    rows = replace(experience(scores, lengths=LENGTHS, group=[0, 0, 1, 1]), **changes)
    return record_of(notes_of(rows, TOLD), pack(rows), rows.completions, rows.finish_reason)


def replayed(of: Record, **parts: Any) -> Outcome:
    algorithm = GroupRelative(**{"sampler": GroupSampler(2), "advantage": GroupCentered(), "aggregation": TokenMean(), **parts})
    return first_pass([of], algorithm, RewardSet({"score": ExactMatch()}), seed=0)


def test_the_pull_of_a_token_is_its_advantage_by_the_tokens() -> None:
    found = replayed(record([1.0, 0.0, 0.5, 0.5]))
    advantages = torch.tensor([0.5, -0.5, 0.0, 0.0]).double()
    expected = torch.where(found.batch.response_mask, -advantages[:, None] / 8, 0.0)
    torch.testing.assert_close(found.pulls, expected)
    assert found.numbers["policy_loss"] == pytest.approx(-(0.5 * 1 - 0.5 * 3) / 8)
    assert cosine(found.gradients.first, found.gradients.total) == pytest.approx(1, abs=1e-12)


def test_a_sequence_mean_pulls_each_row_by_its_length() -> None:
    found = replayed(record([1.0, 0.0, 0.5, 0.5]), aggregation=SequenceMean())
    expected = torch.tensor([-0.5, 0.5 / 3, 0.0, 0.0]).double()[:, None] / 4 * found.batch.response_mask
    torch.testing.assert_close(found.pulls, expected)


def test_what_needs_a_network_is_left_out_and_named() -> None:
    found = replayed(record([1.0, 0.0, 0.5, 0.5]), entropy=EntropyBonus(coefficient=0.1))
    assert found.left_out == ("entropy_loss is left out: it reads entropy of whole distributions, which needs the weights",)
    assert "entropy_loss" not in found.numbers


def test_rows_of_older_weights_are_named() -> None:
    found = replayed(record([1.0, 0.0, 0.5, 0.5], policy_version=torch.tensor([0, 0, 0, -1])))
    assert found.left_out[0].startswith("1 rows were sampled by older weights")


def test_a_reference_that_is_not_in_the_record_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"GroupRelative needs the log-probs of a reference policy, and the record of GroupRelative has none"
    ):
        replayed(record([1.0, 0.0, 0.5, 0.5]), kl=KLPenalty(loss_coefficient=0.1))
    reference = experience([1.0] * 4, lengths=LENGTHS).old_logprobs - 0.1
    found = replayed(record([1.0, 0.0, 0.5, 0.5], ref_logprobs=reference), kl=KLPenalty(loss_coefficient=0.1))
    assert found.numbers["kl_loss"] > 0


def test_a_critic_that_the_run_did_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="GAE of ActorCritic needs the values of a critic, and the record of GroupRelative has none"):
        first_pass([record([1.0] * 4)], ActorCritic(), RewardSet({"score": ExactMatch()}), seed=0)


def test_groups_of_one_row_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="compares completions of one prompt, and the record of GroupRelative has one for each prompt"):
        replayed(record([1.0] * 4, group=torch.arange(4)))
