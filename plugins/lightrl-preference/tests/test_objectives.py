"""Losses and gradients by hand: log-probs -10 and -12 of 5 and 6 tokens, under the reference -11 and -11.5."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_preference import (
    AOT,
    BCO,
    DPO,
    EXO,
    IPO,
    KTO,
    NCA,
    ORPO,
    SPPO,
    AlphaPO,
    AOTUnpaired,
    APODown,
    APOZero,
    APOZeroUnpaired,
    DiscoPOP,
    ForwardKLDPO,
    Hinge,
    JensenShannonDPO,
    LabelledPairs,
    LengthNormalizedDPO,
    MixedObjective,
    ReferenceFreeDPO,
    ReferenceFreeHinge,
    ReferenceFreeIPO,
    RobustDPO,
    SimPO,
)
from lightrl_preference.each_completion import log_odds
from torch import Tensor

from lightrl import ChosenLikelihood, Likelihood, Objective, PairObjective, WithStatistics
from lightrl.registry.classes import registry

WITH_REFERENCE = [
    DPO, EXO, IPO, NCA, SPPO, APODown, APOZero, DiscoPOP, ForwardKLDPO, Hinge, JensenShannonDPO, LengthNormalizedDPO, RobustDPO,
]  # fmt: skip
PAIRED = [*WITH_REFERENCE, ORPO, ReferenceFreeDPO, ReferenceFreeHinge, ReferenceFreeIPO, SimPO, AlphaPO]


def completion(logprob: float, tokens: int, reference: float | None = None) -> Likelihood:
    exact = {"dtype": torch.float64}
    anchor = None if reference is None else torch.tensor([reference], **exact)
    return Likelihood(torch.tensor([logprob], **exact).requires_grad_(), torch.tensor([float(tokens)], **exact), anchor)


def value(found: Any) -> Tensor:
    return found.value if isinstance(found, WithStatistics) else found


def loss_and_gradients(objective: PairObjective, rejected: float = -12.0) -> tuple[float, float, float]:
    better, worse = completion(-10.0, 5, -11.0), completion(rejected, 6, -11.5)
    loss = value(objective.loss(better, worse))
    loss.sum().backward()
    gradients = [0.0 if side.logprob.grad is None else side.logprob.grad.item() for side in (better, worse)]
    return (loss.item(), *gradients)


@pytest.mark.parametrize(
    ("objective", "loss", "of_chosen", "of_rejected"),
    [
        (DPO(beta=0.1), 0.620957, -0.046257, 0.046257),
        (DPO(beta=0.1, label_smoothing=0.1), 0.635957, -0.036257, 0.036257),
        (RobustDPO(beta=0.1, label_smoothing=0.1), 0.602207, -0.058757, 0.058757),
        (ReferenceFreeDPO(beta=1.0), 0.126928, -0.119203, 0.119203),
        (IPO(beta=0.1, log_ratio="sum"), 12.25, -7.0, 7.0),
        (IPO(beta=0.1), 22.246944, -4.716667 * 2 / 5, 4.716667 * 2 / 6),
        (SimPO(beta=2.5, gamma=1.375), 1.600413, -0.5 * 0.798187, 2.5 / 6 * 0.798187),
        # logit -1.375: -ln sigmoid is 1.600413, of its opposite 0.225413
        (SimPO(beta=2.5, gamma=1.375, label_smoothing=0.1), 1.462913, -0.5 * 0.698187, 2.5 / 6 * 0.698187),
        # log-probs -10 and -12: (2 - 5)^2; per token -2 and -2: (0 - 5)^2
        (ReferenceFreeIPO(beta=0.1, log_ratio="sum"), 9.0, -6.0, 6.0),
        (ReferenceFreeIPO(beta=0.1), 25.0, -10 / 5, 10 / 6),
        # SimPO's gradients times p^-alpha = e^0.5
        (AlphaPO(beta=2.5, gamma=1.375, alpha=0.25), 1.600413, -0.5 * 0.798187 * math.exp(0.5), 2.5 / 6 * 0.798187 * math.exp(0.5)),
        (AlphaPO(alpha=0), 1.600413, -0.5 * 0.798187, 2.5 / 6 * 0.798187),
        (Hinge(beta=0.1), 0.85, -0.1, 0.1),
        (Hinge(beta=1.0, margin=1.0), 0.0, 0.0, 0.0),
        (ReferenceFreeHinge(), 0.0, 0.0, 0.0),
        (ReferenceFreeHinge(margin=3.0), 1.0, -1.0, 1.0),
        (ChosenLikelihood(), 2.0, -0.2, 0.0),
        (APOZero(beta=0.5), 0.815364, -0.117502, 0.123067),
        (APODown(beta=0.5), 0.943281, 0.008554, 0.108947),
        (EXO(beta=0.5, label_smoothing=0.1), 0.182790, -0.157671, 0.157671),
        (NCA(beta=0.5), 1.249085, -0.033156, 0.109456),
        (SPPO(beta=0.5), 0.25, 0.0, 1.0),
        (SPPO(beta=0.25), 3.25, -2.0, 3.0),
        (DiscoPOP(beta=0.5, tau=0.5), 0.456770, -0.209609, 0.209609),
        (ForwardKLDPO(beta=0.5), 0.423351, -0.063487, 0.284529),
        (JensenShannonDPO(beta=0.5), 0.541528, -0.056228, 0.130138),
        (LengthNormalizedDPO(), 0.217142, -0.195185, 0.162654),
    ],
    ids=lambda x: str(x) if isinstance(x, Objective) else None,
)  # fmt: skip
def test_by_hand(objective: PairObjective, loss: float, of_chosen: float, of_rejected: float) -> None:
    found = loss_and_gradients(objective)
    assert found == pytest.approx((loss, of_chosen, of_rejected), abs=1e-5)


def test_orpo_by_hand() -> None:
    """Mean log-probs -2 and -2.5: log-odds .559763 apart."""
    assert loss_and_gradients(ORPO(weight=0.1), rejected=-15.0)[0] == pytest.approx(2.045193, abs=1e-6)
    better, worse = (log_odds(torch.tensor(x, dtype=torch.float64)) for x in (-2.0, -2.5))
    assert float(better - worse) == pytest.approx(0.559763, abs=1e-6)


@pytest.mark.parametrize(("alpha", "loss"), [(0.25, 0.364867), (1e-6, 0.757597), (-0.5, 1.290061)])
def test_alphapo_by_hand(alpha: float, loss: float) -> None:
    """Mean log-probs -2 and -2.5, alpha 0.25: rewards -6.48721 and -8.68246; alpha near 0: -5 and -6.25; -0.5: -3.16060 and -3.56748."""
    assert loss_and_gradients(AlphaPO(alpha=alpha), rejected=-15.0)[0] == pytest.approx(loss, abs=1e-5)


@pytest.mark.parametrize(("good", "loss", "gradient"), [(True, 0.377541, -0.117502), (False, 0.437823, 0.123067)])
def test_apo_zero_unpaired_by_hand(good: bool, loss: float, gradient: float) -> None:
    """Log-ratios 1 and -.5, beta .5: 1 - sigmoid(.5) and sigmoid(-.25); together the loss of `APOZero`."""
    subject = completion(-10.0, 5, -11.0) if good else completion(-12.0, 6, -11.5)
    found = value(APOZeroUnpaired(beta=0.5).loss(subject, torch.tensor([good])))
    found.sum().backward()
    assert found.item() == pytest.approx(loss, abs=1e-6)
    assert subject.logprob.grad is not None
    assert subject.logprob.grad.item() == pytest.approx(gradient, abs=1e-5)


@pytest.mark.parametrize(("good", "loss", "gradient"), [(True, 0.482507, -0.024969), (False, 0.480011, 0.024960)])
def test_kto_by_hand(good: bool, loss: float, gradient: float) -> None:
    """Log-ratios 1 and -.5, and a reference point of .3."""
    subject = completion(-10.0, 5, -11.0) if good else completion(-12.0, 6, -11.5)
    ready = replace(subject, prepared={"kl": torch.tensor([0.3], dtype=torch.float64)})
    found = value(KTO(beta=0.1).loss(ready, torch.tensor([good])))
    found.sum().backward()
    assert found.item() == pytest.approx(loss, abs=1e-6)
    assert subject.logprob.grad is not None
    assert subject.logprob.grad.item() == pytest.approx(gradient, abs=1e-5)


def test_ktos_reference_point_is_a_mean_that_is_never_negative_and_its_weights_are_factors() -> None:
    def rows(*ratios: float) -> Likelihood:
        return Likelihood(torch.tensor(ratios), torch.ones(len(ratios)), torch.zeros(len(ratios)))

    assert KTO().from_mismatched(rows(1.0, 0.5, -0.6))["kl"] == pytest.approx(0.3)
    assert KTO().from_mismatched(rows(1.0, -3.0))["kl"] == 0
    assert KTO().from_mismatched(rows())["kl"] == 0
    for good, name in ((True, "desirable_weight"), (False, "undesirable_weight")):
        subject, labels = replace(rows(0.7), prepared={"kl": torch.tensor([0.2])}), torch.tensor([good])
        weighted = value(KTO(**{name: 1.5}).loss(subject, labels))
        assert weighted.item() == pytest.approx(1.5 * value(KTO().loss(subject, labels)).item())


def test_bco_by_hand() -> None:
    """Rewards .2 and .4 of good completions and -.3 of a bad one: the middle of .3 and -.3 is 0."""
    subject = Likelihood(torch.tensor([2.0, 4.0, -3.0]), torch.ones(3), torch.zeros(3))
    good = torch.tensor([True, True, False])
    assert BCO().from_step(subject, good)["reward_shift"].item() == pytest.approx(0, abs=1e-7)
    assert BCO().from_step(subject.select(torch.tensor([0, 2])), good[1:])["reward_shift"].item() == pytest.approx(-0.05)
    assert BCO().from_step(subject.select(torch.tensor([0, 1])), good[:2])["reward_shift"].item() == pytest.approx(0.3)
    found = value(BCO().loss(replace(subject, prepared={"reward_shift": torch.full((3,), 0.1)}), good))
    # -ln sigmoid of .1, .3 and .4
    assert found.tolist() == pytest.approx([0.644397, 0.554355, 0.513015], abs=1e-6)


def test_aot_by_hand() -> None:
    """Margins 3, 1 and 2 beside the reference's 1, 0 and 5: the largest is compared with 5, the least with 0."""
    chosen = Likelihood(torch.tensor([-1.0, -2.0, -3.0]), torch.ones(3), torch.tensor([-1.0, -2.0, -1.0]))
    rejected = Likelihood(torch.tensor([-4.0, -3.0, -5.0]), torch.ones(3), torch.tensor([-2.0, -2.0, -6.0]))
    prepared = AOT().from_step(chosen, rejected)
    assert prepared["anchor"].tolist() == [5, 0, 1]
    found: Any = AOT(beta=1.0).loss(replace(chosen, prepared=prepared), rejected)
    # -ln sigmoid of -2, 1 and 1
    assert found.tolist() == pytest.approx([2.126928, 0.313262, 0.313262], abs=1e-6)


def test_aot_unpaired_by_hand() -> None:
    """Log-ratios 1 and 3 of better completions beside 2 and -1 of worse ones: 3 with 2 and 1 with -1, whoever stands beside whom."""
    u, v = (torch.tensor(numbers, requires_grad=True) for numbers in ([1.0, 3.0], [2.0, -1.0]))
    chosen, rejected = (Likelihood(side, torch.ones(2), torch.zeros(2)) for side in (u, v))
    prepared = AOTUnpaired().from_step(chosen, rejected)
    assert (prepared["worse"].tolist(), prepared["better"].tolist()) == ([-1, 2], [3, 1])
    found: Any = AOTUnpaired(beta=1.0).loss(replace(chosen, prepared=prepared), rejected)
    found.sum().backward()
    sorted_pairs = -torch.nn.functional.logsigmoid(torch.tensor([2.0, 1.0]))
    assert found.sum().item() == pytest.approx(sorted_pairs.sum().item())
    assert u.grad is not None
    assert v.grad is not None
    # minus sigmoid of -2 and of -1, and the same with the other sign for the partner
    assert u.grad.tolist() == pytest.approx([-0.119203, -0.268941], abs=1e-6)
    assert v.grad.tolist() == pytest.approx([0.268941, 0.119203], abs=1e-6)


@pytest.mark.parametrize("objective", [DPO(), DPO(label_smoothing=0.3), RobustDPO()], ids=str)
def test_where_policy_and_reference_agree_dpo_is_ln_2(objective: DPO) -> None:
    same = objective.loss(completion(-3.0, 2, -3.0), completion(-7.0, 9, -7.0))
    assert same.item() == pytest.approx(math.log(2), abs=1e-12)


@given(st.floats(-8, 8), st.floats(0, 0.4))
def test_robust_dpos_mean_over_flipped_labels_is_dpos_loss(margin: float, flipped: float) -> None:
    at = torch.tensor([margin], dtype=torch.float64)
    robust = RobustDPO(label_smoothing=flipped)
    mean = (1 - flipped) * robust.of_margin(at) + flipped * robust.of_margin(-at)
    assert mean.item() == pytest.approx(DPO().of_margin(at).item(), abs=1e-9)


def test_what_grows_with_length_and_what_does_not() -> None:
    """The same log-probs per token, twice as long: DPO's margin doubles, IPO's and others' stay."""

    def margin(objective: PairObjective, times: int) -> float:
        better, worse = completion(-2.0 * times, 2 * times, -3.0 * times), completion(-9.0 * times, 3 * times, -8.0 * times)
        return (objective.reward(better) - objective.reward(worse)).item()

    assert margin(DPO(), 2) == pytest.approx(2 * margin(DPO(), 1))
    assert margin(IPO(log_ratio="sum"), 2) == pytest.approx(2 * margin(IPO(log_ratio="sum"), 1))
    for steady in (IPO(), ReferenceFreeIPO(), SimPO(), AlphaPO(), ORPO(), LengthNormalizedDPO()):
        assert margin(steady, 2) == pytest.approx(margin(steady, 1))


@given(st.floats(-30, -1e-6))
def test_log_odds_are_exact_on_both_sides(logprob: float) -> None:
    x = torch.tensor(logprob, dtype=torch.float64, requires_grad=True)
    found = log_odds(x)
    found.backward()
    p = math.exp(logprob)
    assert found.item() == pytest.approx(logprob - math.log(-math.expm1(logprob)), rel=1e-9)
    assert x.grad is not None
    assert x.grad.item() == pytest.approx(1 / -math.expm1(logprob), rel=1e-9)
    assert 0 < p < 1


def test_a_certain_completion_leaves_orpo_finite() -> None:
    certain = Likelihood(torch.zeros(1, requires_grad=True), torch.ones(1))
    value(ORPO().loss(certain, certain)).sum().backward()
    assert certain.logprob.grad is not None
    assert certain.logprob.grad.isfinite().all()


def test_a_mixture_adds_what_its_parts_say_and_needs_what_they_need() -> None:
    both = MixedObjective({"dpo": DPO(), "likelihood": ChosenLikelihood()}, weights={"likelihood": 0.5})
    loss, of_chosen, of_rejected = loss_and_gradients(both)
    assert (loss, of_chosen, of_rejected) == pytest.approx((0.620957 + 0.5 * 2.0, -0.046257 - 0.5 * 0.2, 0.046257), abs=1e-5)
    assert both.needs == {"ref_logprobs"}
    assert MixedObjective({"simpo": SimPO(), "dpo": DPO()}, weights={"dpo": 0}).needs == frozenset()


def test_labelled_pairs_add_the_losses_of_both_labels() -> None:
    """r = 0.1 and -0.05, d = 0.025: loss = 2 ln(1 + exp(-0.075)), gradients 0.1 / (1 + exp(0.075))."""
    objective = LabelledPairs(BCO(beta=0.1))
    better, worse = completion(-10.0, 5, -11.0), completion(-12.0, 6, -11.5)
    found = objective.from_step(better, worse)
    assert found["reward_shift"].item() == pytest.approx(0.025)
    prepared = {name: shift.expand(1) for name, shift in found.items()}
    both = objective.loss(replace(better, prepared=prepared), worse)
    assert both.statistics["reward_shift"].tolist() == pytest.approx([0.025])  # type: ignore[union-attr]
    loss = both.value
    loss.sum().backward()
    assert loss.item() == pytest.approx(2 * math.log1p(math.exp(-0.075)))
    assert better.logprob.grad is not None
    assert worse.logprob.grad is not None
    gradient = 0.1 / (1 + math.exp(0.075))
    assert (better.logprob.grad.item(), worse.logprob.grad.item()) == pytest.approx((-gradient, gradient))
    assert (objective.needs, objective.needs_step) == ({"ref_logprobs"}, True)
    with pytest.raises(ValueError, match="KTO reads completions of other prompts"):
        LabelledPairs(KTO())


class TwiceItsOwn(APOZeroUnpaired):
    """Prepares a number for each completion."""

    needs_step = True

    def from_step(self, completions: Likelihood, good: Tensor) -> dict[str, Tensor]:
        return {"own": completions.logprob.detach() + 100.0 * good}

    def loss(self, completions: Likelihood, good: Tensor) -> Tensor:
        return completions.prepared["own"]


def test_labelled_pairs_give_each_completion_its_own_numbers() -> None:
    objective = LabelledPairs(TwiceItsOwn())
    better, worse = completion(-10.0, 5, -11.0), completion(-12.0, 6, -11.5)
    prepared = objective.from_step(better, worse)
    assert {name: found.tolist() for name, found in prepared.items()} == {"good/own": [90.0], "bad/own": [-12.0]}
    assert value(objective.loss(replace(better, prepared=prepared), worse)).tolist() == [78.0]


@pytest.mark.parametrize(
    ("objectives", "weights", "message"),
    [
        ({}, None, "objectives is empty"),
        ({"kto": KTO()}, None, "kto is KTO, which does not learn from pairs"),
        ({"dpo": DPO()}, {"dop": 1.0}, r"names \['dop'\], and the objectives are dpo"),
        ({"dpo": DPO()}, {"dpo": -1.0}, "must be 0 or more"),
        ({"dpo": DPO()}, {"dpo": 0.0}, "are all 0"),
    ],
    ids=["none", "labelled", "unknown", "negative", "nothing"],
)
def test_impossible_mixtures_are_refused(objectives: dict[str, Any], weights: dict[str, float] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MixedObjective(objectives, weights)


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (DPO, {"beta": 0}), (DPO, {"label_smoothing": 0.5}), (RobustDPO, {"label_smoothing": -0.1}), (IPO, {"beta": -1}),
        (IPO, {"log_ratio": "max"}), (SimPO, {"beta": 0}), (SimPO, {"gamma": -1}), (ORPO, {"weight": 0}), (KTO, {"beta": 0}),
        (APOZero, {"beta": 0}), (APODown, {"beta": 0}), (EXO, {"label_smoothing": 0}), (NCA, {"beta": 0}), (SPPO, {"beta": -1}),
        (SimPO, {"label_smoothing": 0.5}), (APOZeroUnpaired, {"beta": 0}),
        (DiscoPOP, {"tau": 1.5}), (DiscoPOP, {"tau": 0}), (ForwardKLDPO, {"beta": 0}), (LengthNormalizedDPO, {"beta": 0}),
        (KTO, {"desirable_weight": 0}), (Hinge, {"margin": 0}), (DPO, {"beta": float("nan")}), (ReferenceFreeHinge, {"beta": -1}),
    ],
    ids=lambda x: x.__name__ if isinstance(x, type) else str(x),
)  # fmt: skip
def test_impossible_settings_are_refused(cls: type, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=cls.__name__):
        cls(**settings)


@pytest.mark.parametrize("cls", [*PAIRED, KTO, APOZeroUnpaired])
def test_the_hook_registers_it(cls: type) -> None:
    assert registry().resolve("objective", cls.__name__) is cls
    assert registry().resolve("objective", f"lightrl-preference:{cls.__name__}") is cls


def test_only_those_with_a_reference_need_one() -> None:
    assert {cls.__name__ for cls in [*PAIRED, KTO] if cls().needs} == {cls.__name__ for cls in [*WITH_REFERENCE, KTO]}
