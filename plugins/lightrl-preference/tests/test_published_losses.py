"""Losses of TRL's `DPOTrainer` at three pairs, by its own expressions, and gradients that do not depend on how a step is cut."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_preference import (
    EXO,
    NCA,
    SPPO,
    APODown,
    APOZero,
    DiscoPOP,
    ForwardKLDPO,
    JensenShannonDPO,
    LengthNormalizedDPO,
    MixedObjective,
)
from lightrl_workshop import quiet_trainer
from torch import Tensor

from lightrl import Likelihood, PairObjective, PreferenceOptimization, Prompt, PromptData, PromptSource, TinyPolicy

NEWER = [APOZero, APODown, EXO, NCA, SPPO, DiscoPOP, ForwardKLDPO, JensenShannonDPO, LengthNormalizedDPO]
each_newer = pytest.mark.parametrize("make", NEWER, ids=lambda cls: cls.__name__)


def side(log_ratios: list[float], tokens: list[float]) -> Likelihood:
    ratios = torch.tensor(log_ratios, dtype=torch.float64)
    return Likelihood(ratios - 20.0, torch.tensor(tokens, dtype=torch.float64), torch.full_like(ratios, -20.0))


# of TRL's loss types apo_zero, apo_down, exo_pair, nca_pair, sppo_hard, discopop, sigmoid with f_divergence_type forward_kl and
# js_divergence, and sigmoid_norm, with the defaults of these classes
TRL = {
    APOZero: [0.962523416, 1.12427651, 0.998750159],
    APODown: [0.987549342, 1.07262533, 1.00499968],
    EXO: [2.50551656, 3.63732714, 2.75260041],
    NCA: [1.38256467, 1.39892561, 1.38617078],
    SPPO: [498501.25, 505013.0, 499950.1025],
    DiscoPOP: [0.878234413, 0.829005321, 0.848519811],
    ForwardKLDPO: [0.631154384, 1.1259827, 0.691152675],
    JensenShannonDPO: [0.660652163, 0.802453899, 0.692037824],
    LengthNormalizedDPO: [0.21714244, 5.21378921, 0.866720792],
}


@pytest.mark.parametrize(("make", "losses"), TRL.items(), ids=[cls.__name__ for cls in TRL])
def test_the_losses_are_those_of_trl(make: type[PairObjective], losses: list[float]) -> None:
    chosen, rejected = side([1.0, -2.0, 0.25], [5.0, 3.0, 7.0]), side([-0.5, 3.0, 0.2], [6.0, 8.0, 2.0])
    assert make().loss(chosen, rejected).tolist() == pytest.approx(losses, rel=1e-8)  # type: ignore[union-attr]


@each_newer
def test_completions_that_are_far_from_the_reference_leave_it_finite(make: type[PairObjective]) -> None:
    far = torch.tensor([-300.0, 300.0, -300.0, 300.0], requires_grad=True)
    chosen, rejected = Likelihood(far, torch.ones(4), torch.zeros(4)), Likelihood(far.detach().roll(1), torch.ones(4), torch.zeros(4))
    loss: Any = make().loss(chosen, rejected)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert far.grad is not None
    assert far.grad.isfinite().all()


def test_discopop_rises_with_the_margin_around_0_at_the_published_tau_and_falls_elsewhere() -> None:
    margin = torch.tensor([-1.0, -0.2, 0.0, 0.2, 1.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(DiscoPOP().of_margin(margin).sum(), margin)
    assert slope.sign().tolist() == [-1, -1, 1, -1, -1]
    assert slope[2].item() == pytest.approx(5 * (1 - math.log(2)) - 0.75)


class Compared(PromptSource):
    """Pairs of many lengths, in this order of rows."""

    size = 6

    def __init__(self, order: list[int]) -> None:
        self.order = order

    def prompt(self, index: int) -> Prompt:
        n = self.order[index]
        columns: dict[str, Any] = {"chosen": "12345678"[: n % 5 + 1], "rejected": "98765"[: (n * 3) % 4 + 1]}
        return Prompt(id=f"row{n}", text=f"{n}{n + 1}=", columns=columns)


def test_the_gradient_depends_neither_on_the_micro_batches_nor_on_the_order(tmp_path: Path) -> None:
    """Of all of them at once, in float64, away from the reference: the second of two steps."""
    tiny = TinyPolicy(hidden=8, layers=1, heads=1, dtype="float64")

    def gradient(budget: int | None, order: list[int]) -> Tensor:
        seen: list[Tensor] = []

        class Watched(torch.optim.SGD):
            def step(self, closure: Any = None) -> Any:
                found = super().step(closure)
                seen.append(torch.cat([p.grad.flatten() for group in self.param_groups for p in group["params"]]))
                return found

        # SPPO's targets are log-ratios of 500
        mixture = MixedObjective({cls.__name__: cls() for cls in NEWER}, weights={"SPPO": 1e-4})
        module = PreferenceOptimization(
            tiny, mixture, batch_size=6, micro_batch_tokens=budget, optimizer=lambda p: Watched(p, lr=1e-2), max_grad_norm=None
        )
        trainer = quiet_trainer(max_steps=2, num_sanity_val_steps=0, default_root_dir=tmp_path)
        trainer.fit(module, datamodule=PromptData(train=Compared(order), shuffle=False))
        return seen[-1]

    whole = gradient(None, [0, 1, 2, 3, 4, 5])
    assert whole.abs().max() > 1e-3
    for other in (gradient(24, [3, 5, 1, 0, 4, 2]), gradient(1, [0, 1, 2, 3, 4, 5])):
        assert float((whole - other).abs().max()) <= 1e-10
