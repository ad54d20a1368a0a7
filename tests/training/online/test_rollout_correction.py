"""An engine whose weights are not quite the trainer's: what is recomputed, corrected and reported."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from lightrl_workshop import CodePoints, quiet_trainer

from lightrl import (
    DigitSorting,
    GroupRelative,
    GroupSampler,
    MaskedImportance,
    PolicyOptimization,
    PolicyWeights,
    PromptData,
    RolloutCorrection,
    TinyPolicy,
    TokenMean,
    TransformersEngine,
    TruncatedImportance,
)
from lightrl.policy.weights import TrainerWeights


class PerturbedEngine(TransformersEngine):
    """Generates with a copy of the policy whose weights have moved a little, as another library's kernels or precision would."""

    def __init__(self, noise: float) -> None:
        super().__init__(max_new_tokens=8)
        self.noise = noise

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        moved = copy.deepcopy(weights.policy)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in moved.parameters():
                p += self.noise * torch.randn(p.shape, generator=generator)
        super().update_weights(TrainerWeights(moved), version)


def run(correction: RolloutCorrection | None, noise: float) -> tuple[PolicyOptimization, dict[str, float], torch.Tensor]:
    """A rollout and one step of plain SGD: the module, what was logged, and how far the policy moved."""
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64"),
        algorithm=GroupRelative(
            sampler=GroupSampler(group_size=4), aggregation=TokenMean(), correction=correction, old_logprobs="recompute"
        ),
        rewards={"codes": CodePoints()},
        engine=PerturbedEngine(noise),
        prompts_per_rollout=8,
        optimizer=lambda p: torch.optim.SGD(p, lr=1.0),
        max_grad_norm=None,
    )
    trainer = quiet_trainer(max_epochs=1)
    before = TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64").build().state_dict()
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=60)))
    moved = torch.cat([(now - before[name]).flatten() for name, now in module.policy.state_dict().items()])
    return module, {name: float(value) for name, value in trainer.callback_metrics.items()}, moved


def test_old_log_probs_are_the_trainers_and_the_first_ratio_is_1() -> None:
    module, logged, _ = run(TruncatedImportance(), noise=0.02)
    rows = module.experience
    assert (rows.old_logprobs - rows.rollout_logprobs)[rows.response_mask].abs().max() > 1e-3
    assert logged["ratio/max_deviation"] < 1e-6


@pytest.mark.parametrize(
    ("correction", "changed"), [(TruncatedImportance(cap=1.1), "correction/clipped"), (MaskedImportance(0.9, 1.1), "correction/masked")]
)
def test_what_it_did_is_reported(correction: Any, changed: str) -> None:
    module, logged, _ = run(correction, noise=0.03)
    rows = module.experience
    mask = rows.token_weight > 0
    rho = (rows.old_logprobs - rows.rollout_logprobs).exp()[mask].double()
    kept = rho.clamp(max=1.1) if changed == "correction/clipped" else torch.where((rho >= 0.9) & (rho <= 1.1), rho, 0.0)
    expected = {
        "correction/rho_mean": rho.mean(),
        "correction/rho_max": rho.max(),
        "correction/rho_min": rho.min(),
        "correction/mean": kept.mean(),
        "correction/ess": kept.sum() ** 2 / (len(kept) * (kept**2).sum()),
        "correction/kl": (rho - 1 - rho.log()).mean(),
        changed: (kept != rho).double().mean(),
    }
    assert 0 < expected[changed] < 1
    assert {name: logged[name] for name in expected} == pytest.approx({name: value.item() for name, value in expected.items()}, abs=1e-6)


def test_the_correction_weighs_the_policy_loss() -> None:
    """Without a cap the weights are the ratios; a cap that every ratio exceeds scales the whole gradient."""
    plain, scaled = (run(correction, noise=0.02)[2] for correction in (None, TruncatedImportance(cap=0.25)))
    assert torch.allclose(scaled, 0.25 * plain, rtol=1e-6, atol=1e-12)


def test_an_engine_that_agrees_is_not_corrected() -> None:
    _, logged, moved = run(TruncatedImportance(), noise=0.0)
    assert logged["correction/rho_max"] == pytest.approx(1, abs=1e-5)
    assert logged["correction/ess"] == pytest.approx(1, abs=1e-6)
    assert logged["correction/clipped"] == 0
    assert torch.allclose(moved, run(None, noise=0.0)[2], atol=1e-6)


class RawLogProbs(PerturbedEngine):
    """Gives log-probs of another distribution, and says so."""

    comparable_logprobs = False


def test_log_probs_that_mean_something_else_are_replaced_and_not_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PerturbedEngine", RawLogProbs)
    module, logged, _ = run(None, noise=0.02)
    rows = module.experience
    assert torch.equal(rows.old_logprobs[rows.response_mask], rows.rollout_logprobs[rows.response_mask])
    assert not rows.rollout_logprobs[~rows.response_mask].any()
    assert logged["ratio/max_deviation"] < 1e-6
    with pytest.raises(ValueError, match=r"algorithm\.correction is TruncatedImportance, and the log-probs of RawLogProbs mean something"):
        run(TruncatedImportance(), noise=0.02)
