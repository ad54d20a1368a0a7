"""Figures about an update mean the same whatever else the loss has: `clip_ratio/*`, `ratio/*`, `approx_kl`, and those of a clip scheme."""

from pathlib import Path

import pytest
import torch
from lightrl_workshop import quiet_trainer
from lightrl_workshop.experience import experience

from lightrl import (
    Algorithm,
    DecoupledClip,
    DigitSorting,
    EntropyBonus,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    PolicyOptimization,
    PromptData,
    RowReward,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.parts.clip import Surrogate
from lightrl.ranks import ALONE
from lightrl.training.online.loss import StepLoss, terms_of
from lightrl.training.reports.statistics import StatisticsLedger
from lightrl.types import PolicyOutput, TrainingBatch

RATIOS = ("clip_ratio/low", "clip_ratio/high", "clip_ratio/region", "ratio/mean", "ratio/max", "ratio/max_deviation")
FIGURES = (*RATIOS, "approx_kl")


def algorithm(**parts: object) -> Algorithm:
    return GroupRelative(**{"sampler": GroupSampler(group_size=4), "minibatches": 2, "epochs": 2, **parts})


class Reporting(DecoupledClip):
    """Also reports a share of tokens and a number per row."""

    def surrogate(self, log_ratio, advantages, old_logprobs, mask) -> Surrogate:
        found = super().surrogate(log_ratio, advantages, old_logprobs, mask)
        # of every token, so that only the core can leave those without advantage out
        return Surrogate(found.loss, found.clipped_low, found.clipped_high, {"bold": log_ratio > 0}, {"late": mask.sum(1).double()})


def figures(ratios: list[float], advantages: list[float], **more: object) -> dict[str, float]:
    """Of one step on groups of two rows with one sampled token each but for the last, which has three."""
    n = len(ratios)
    rows = experience([0.0] * n, lengths=[1] * (n - 1) + [3], group=[i // 2 for i in range(n)], ref_logprobs=torch.zeros(n, 5))
    rows.advantages = torch.tensor(advantages)[:, None] * rows.response_mask
    # no term reads the rewards, which travel with the rows
    rows.rewards = torch.tensor(ratios).log()

    def outputs(batch: TrainingBatch, mask: torch.Tensor) -> PolicyOutput:
        return PolicyOutput(batch.old_logprobs + batch.rewards[:, None], {"entropy": torch.ones(mask.shape)})

    loss = StepLoss(terms_of(algorithm(clip=Reporting(low=0.2, high=0.2), **more)), rows, ALONE)
    ledger = StatisticsLedger()
    ledger.add_report(loss.left_out(rows))
    for cut in range(len(loss.rows_of(rows))):
        micro = loss.rows_of(rows).select([cut])
        ledger.add_report(loss.share(micro, outputs(micro, loss.tokens(micro))).statistics)
    return ledger.reduce(lambda mine: [mine])


TERMS = [{}, {"kl": KLPenalty(loss_coefficient=1e-9)}, {"entropy": EntropyBonus(1e-9)}]


@pytest.mark.parametrize("more", TERMS, ids=["alone", "kl", "entropy"])
def test_rows_without_advantage_count_as_not_clipped_and_not_otherwise(more: dict[str, object]) -> None:
    """Six tokens with a policy loss, of which the last row's three have no advantage, whatever is forwarded for other terms."""
    found = figures([1.5, 0.5, 1.1, 3.0], [1.0, -1.0, 1.0, 0.0], **more)
    assert found["clip_ratio/low"] == pytest.approx(1 / 6)
    assert found["clip_ratio/high"] == pytest.approx(1 / 6)
    assert found["clip_ratio/region"] == pytest.approx(2 / 6)
    assert found["bold"] == pytest.approx(2 / 6)
    assert found["ratio/mean"] == pytest.approx((1.5 + 0.5 + 1.1) / 3)
    assert found["ratio/max"] == pytest.approx(1.5)
    assert found["ratio/max_deviation"] == pytest.approx(0.5)
    assert found["approx_kl"] == pytest.approx(sum(r - 1 - float(torch.tensor(r).log()) for r in (1.5, 0.5, 1.1)) / 3)
    assert found["late"] == 1


def test_a_step_of_rows_without_advantage_has_no_ratio_and_clips_nothing() -> None:
    found = figures([2.0, 2.0], [0.0, 0.0])
    assert found["clip_ratio/region"] == 0
    assert "ratio/mean" not in found


class OneInFour(RowReward):
    """Signal in every fourth prompt alone."""

    runs = "inline"

    def score(self, prompt, completion) -> float:
        return float(sum(map(ord, completion)) % 3) * (int(prompt.text[0]) % 4 == 0)


@pytest.mark.parametrize("more", TERMS[1:], ids=["kl", "entropy"])
def test_a_term_too_small_to_act_changes_no_figure_of_a_run(more: dict[str, object], tmp_path: Path) -> None:
    def logged(name: str, **parts: object) -> dict[str, float]:
        run = quiet_trainer(max_epochs=2, num_sanity_val_steps=0, default_root_dir=tmp_path / name)
        subject = PolicyOptimization(
            policy=TinyPolicy(hidden=16, layers=1, heads=2),
            algorithm=algorithm(clip=DecoupledClip(low=0.001, high=0.001), **parts),
            rewards={"some": OneInFour()},
            engine=TransformersEngine(max_new_tokens=6),
            prompts_per_rollout=8,
            micro_batch_tokens=128,
            optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
        )
        run.fit(subject, datamodule=PromptData(train=DigitSorting(examples=60)))
        return {key: float(value) for key, value in run.logged_metrics.items() if key in FIGURES}

    plain = logged("plain")
    assert plain["clip_ratio/region"] > 0
    assert logged("more", **more) == pytest.approx(plain, rel=1e-4)
