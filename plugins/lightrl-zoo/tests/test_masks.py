"""DPPO and the off-policy sequence mask, by hand."""

import math

import pytest
import torch
from lightrl_zoo import DPPO, DivergenceMask, KLMask, MaskedREINFORCE, OffPolicyMask, TotalVariationMask

from lightrl import ClipScheme, GroupCentered, PolicyGradient, SymmetricClip


def pull(clip: ClipScheme, log_ratio: list[float], advantage: float, old: float = 0.5) -> tuple:
    """The surrogate and the gradient of the objective with respect to the log-probs, of one row of tokens that had this probability."""
    logs = torch.tensor([log_ratio], dtype=torch.float64, requires_grad=True)
    before = torch.full_like(logs, math.log(old)).detach()
    out = clip.surrogate(logs, torch.full_like(before, advantage), before, torch.ones_like(logs, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(-out.loss.sum(), logs)
    return out, gradient[0].tolist()


@pytest.mark.parametrize(
    ("clip", "old", "ratio", "divergence"),
    [
        (TotalVariationMask(), 0.5, 1.4, 0.2),
        (TotalVariationMask(), 0.01, 4.0, 0.03),
        (KLMask(), 0.5, 1.4, 0.0871767),  # (ln(5/7) + ln(5/3)) / 2
        (KLMask(), 0.01, 4.0, 0.0166013),  # 0.01 ln(1/4) + 0.99 ln(0.99/0.96)
    ],
    ids=str,
)
def test_dppo_masks_by_the_divergence_and_not_by_the_ratio(clip: DivergenceMask, old: float, ratio: float, divergence: float) -> None:
    """A ratio of 1.4 moves a likely token much farther than a ratio of 4 moves a rare one."""
    out, up = pull(clip, [math.log(ratio)], 1.0, old)
    assert out.statistics["dppo/divergence"].item() == pytest.approx(divergence, abs=1e-6)
    masked = old == 0.5
    assert up == pytest.approx([0.0 if masked else ratio])
    assert bool(out.clipped_high.item()) == masked
    assert pull(clip, [math.log(ratio)], -1.0, old)[1] == pytest.approx([-ratio])  # on its way back
    assert pull(clip, [math.log(0.5)], -1.0, 0.9)[1] == [0.0]
    assert pull(clip, [math.log(0.5)], 1.0, 0.9)[1] == pytest.approx([0.5])


def test_dppos_weight_is_capped() -> None:
    assert pull(TotalVariationMask(), [math.log(30)], 1.0, 0.001)[1] == pytest.approx([20.0])


@pytest.mark.parametrize("old", [1.0, 0.999999, 1e-30])
def test_the_kl_of_a_token_is_finite_where_one_of_its_policies_is_certain(old: float) -> None:
    out, gradient = pull(KLMask(), [-30.0, 0.0], 1.0, old)
    assert out.statistics["dppo/divergence"].isfinite().all()
    assert all(map(math.isfinite, gradient))


def test_what_the_policy_has_left_behind_is_dropped_if_it_was_bad() -> None:
    mask = OffPolicyMask(threshold=0.5)
    assert pull(mask, [-0.6, -0.6], -1.0)[1] == [0.0, 0.0]
    assert pull(mask, [-0.6, -0.6], 1.0)[1] == pytest.approx([1.0, 1.0])
    assert pull(mask, [-0.9, 0.0], -1.0)[1] == pytest.approx([-1.0, -1.0])  # 0.45 nats per token
    assert pull(mask, [-1.1, 0.0], -1.0)[1] == [0.0, 0.0]  # the whole row, not its token alone
    assert pull(mask, [0.6, 0.6], -1.0)[1] == pytest.approx([-1.0, -1.0])
    out, _ = pull(mask, [-0.6, -0.6], -1.0)
    assert out.statistics["off_policy_mask/rows"].tolist() == [1.0]


def test_the_mask_leaves_another_scheme_as_it_is_elsewhere() -> None:
    mask = OffPolicyMask(clip=SymmetricClip(0.2), threshold=0.5)
    out, gradient = pull(mask, [math.log(1.5), 0.0], 1.0)
    assert gradient == pytest.approx([0.0, 1.0])
    assert out.clipped_high.tolist() == [[True, False]]
    assert not mask.token_ratio_only
    assert OffPolicyMask().token_ratio_only


def test_parts() -> None:
    assert type(DPPO().clip) is TotalVariationMask
    assert (DPPO().clip.threshold, DPPO(clip=KLMask()).clip.threshold, DPPO().old_logprobs) == (0.15, 0.05, "rollout")
    reinforce = MaskedREINFORCE()
    assert (type(reinforce.advantage), type(reinforce.clip.clip), reinforce.minibatches) == (GroupCentered, PolicyGradient, 4)


@pytest.mark.parametrize(
    "build",
    [
        lambda: TotalVariationMask(threshold=0),
        lambda: KLMask(cap=0),
        lambda: OffPolicyMask(threshold=-1),
    ],
)
def test_impossible_bounds_are_refused(build) -> None:
    with pytest.raises(ValueError, match=r"needs .* got "):
        build()
