"""Completions of the policy beside those of the data."""

from __future__ import annotations

import pytest
import torch
from lightrl_distill import GKD, ForwardKL, MixedSampler, TeacherLoss
from lightrl_workshop import Meeting, ScriptedCollection, assert_same_gradient, gradient_of_step, quiet_trainer

from lightrl import (
    DigitSorting,
    GroupSampler,
    PolicyOptimization,
    Prompt,
    PromptData,
    Sampler,
    ScoredRollout,
    Teacher,
    TinyPolicy,
    TransformersEngine,
)


def policy_of(seed: int, hidden: int = 16) -> TinyPolicy:
    return TinyPolicy(hidden=hidden, layers=1, heads=2, dtype="float64", seed=seed)


class Seen(MixedSampler):
    """Keeps what it has collected."""

    def collect(self, collection: object) -> ScoredRollout:
        self.seen = super().collect(collection)
        return self.seen


def gradient(sampler: Sampler) -> torch.Tensor:
    algorithm = GKD(sampler=sampler, teacher=Teacher(policy_of(7, hidden=24)), distillation=TeacherLoss(ForwardKL()))
    return gradient_of_step(algorithm, None, policy_of(0), budget=64)


def test_all_by_the_student_is_the_plain_run() -> None:
    assert_same_gradient(gradient(GroupSampler(group_size=1)), gradient(MixedSampler(student_share=1)))


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_the_gradient_is_that_of_the_divergence_on_both_kinds_of_rows(share: float) -> None:
    sampler = Seen(share)
    found = gradient(sampler)
    rows, policy, teacher = sampler.seen, policy_of(0).build(), policy_of(7, hidden=24).build()
    kinds = [sampler.by_student(prompt) for prompt in rows.prompts]
    assert set(kinds) == ({True, False} if share else {False})
    losses, tokens = [], 0
    for i, prompt in enumerate(rows.prompts):
        if not kinds[i]:
            assert rows.completions[i] == str(prompt.answer)
            assert rows.input_ids[i][rows.attention_mask[i]].tolist() == policy.encode_completion(prompt, str(prompt.answer)).ids
        places = rows.response_mask[i].nonzero()[:, 0] - 1
        with torch.no_grad():
            said = teacher.model(input_ids=rows.input_ids[i : i + 1]).logits[0, places]
        own = policy.model(input_ids=rows.input_ids[i : i + 1]).logits[0, places]
        losses.append(ForwardKL().compare(own, said, places).sum())
        tokens += len(places)
    (torch.stack(losses).sum() / tokens).backward()
    slopes = {name: p.grad for name, p in policy.named_parameters()}
    kept = torch.cat([torch.full((value.numel(),), name in slopes) for name, value in policy.state_dict().items()])
    expected = torch.cat([slopes[name].flatten() for name in policy.state_dict() if name in slopes])
    # the norms of the layers are computed in float32
    assert_same_gradient(expected, found[kept], 1e-6)


def test_log_probs_of_given_rows_are_the_trainers() -> None:
    sampler = Seen(0.5)
    gradient(sampler)
    rows, policy = sampler.seen, policy_of(0).build()
    with torch.no_grad():
        expected = policy(rows.input_ids, rows.response_mask).logprobs
    torch.testing.assert_close(rows.rollout_logprobs, expected.float(), atol=1e-6, rtol=1e-6)


def test_the_entropy_is_estimated_from_sampled_rows_alone() -> None:
    """A given row says how unlikely the policy finds what somebody else wrote, which is no entropy."""
    sampler = Seen(0.5)
    module = PolicyOptimization(
        policy=policy_of(0),
        algorithm=GKD(sampler=sampler, teacher=Teacher(policy_of(7, hidden=24)), distillation=TeacherLoss(ForwardKL())),
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=8,
    )
    trainer = quiet_trainer(max_epochs=1)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=100)))
    rows = sampler.seen
    own = torch.tensor([sampler.by_student(prompt) for prompt in rows.prompts])
    expected, all_rows = (-rows.rollout_logprobs[mask].mean() for mask in (rows.response_mask & own[:, None], rows.response_mask))
    assert float(trainer.callback_metrics["entropy_estimate"]) == pytest.approx(float(expected), rel=1e-5)
    assert float(all_rows) != pytest.approx(float(expected), rel=1e-3)
    assert module.experience is not None
    assert torch.equal(module.experience.extra("given"), ~own)


def test_the_choice_is_that_of_the_draw_whoever_draws_it() -> None:
    prompts = [Prompt(id=f"p{i}", text="a") for i in range(1000)]
    first = [MixedSampler(0.3).by_student(prompt) for prompt in prompts]
    assert 250 < sum(first) < 350
    assert first == [MixedSampler(0.3).by_student(prompt) for prompt in prompts]
    later = [MixedSampler(0.3).by_student(Prompt(id=prompt.id, text="a", meta={"epoch": 1})) for prompt in prompts]
    other = [MixedSampler(0.3, seed=1).by_student(prompt) for prompt in prompts]
    assert first not in (later, other)
    # whom the policy completes with a small share it completes with a larger one
    assert all(MixedSampler(0.6).by_student(prompt) for prompt, student in zip(prompts, first, strict=True) if student)


def test_the_share_is_reported() -> None:
    collection = ScriptedCollection(40)
    scored = MixedSampler(0.25).collect(collection)
    (share,) = collection.reports["sampling/student_share"]
    assert share.sum() == (~scored.rollout_logprobs.isnan().any(1)).sum()
    assert MixedSampler(1).samples_all
    assert not MixedSampler(0.9).samples_all


def test_a_rank_may_have_prompts_of_one_kind_alone() -> None:
    assert len(MixedSampler(0).collect(ScriptedCollection(2, meeting=Meeting(1))).prompts) == 2
    assert len(MixedSampler(1).collect(ScriptedCollection(2)).prompts) == 2


def test_what_is_missing_is_said() -> None:
    bare = Prompt(id="p", text="a", columns={"teacher": ["x", "y"]})
    with pytest.raises(ValueError, match="prompt 'p' has no answer that is a text, and MixedSampler takes completions of the data"):
        MixedSampler().completion(bare)
    with pytest.raises(ValueError, match="prompt 'p' has no text in the column 'teacher'"):
        MixedSampler(column="teacher").completion(bare)
    assert MixedSampler(column="by").completion(Prompt(id="p", text="a", columns={"by": "12"})) == "12"
