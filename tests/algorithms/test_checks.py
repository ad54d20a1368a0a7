"""Errors and warnings of an algorithm that is built."""

import warnings

import pytest

from lightrl import (
    GAE,
    ConstantLength,
    DecoupledClip,
    Entropy,
    EntropyBonus,
    GroupCentered,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    LeaveOneOut,
    MaskedImportance,
    NoClip,
    PolicyGradient,
    SequenceMean,
    SequenceRatio,
    SequenceSum,
    SequenceSumTokenMean,
    TokenMean,
    TruncatedImportance,
    ValueHead,
)


class RowConstantClip(DecoupledClip):
    row_constant = True


class Greedy(GroupCentered):
    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"thoughts_logprobs"})


class Curious(GroupCentered):
    outputs = (Entropy(),)


class Other(Entropy):
    def __init__(self, count: int = 2) -> None:
        self.count = count


class Doubtful(EntropyBonus):
    outputs = (Other(3),)


REFUSED = [
    ({"ratio": SequenceRatio(), "aggregation": TokenMean()}, "SequenceRatio gives a row one value, and TokenMean"),
    ({"ratio": SequenceRatio(), "aggregation": SequenceSum()}, "use aggregation SequenceMean or SequenceSumTokenMean"),
    ({"ratio": SequenceRatio(), "aggregation": ConstantLength(8)}, "SequenceRatio gives a row one value"),
    ({"clip": RowConstantClip(), "aggregation": TokenMean()}, "RowConstantClip gives a row one value"),
    ({"clip": PolicyGradient(), "ratio": SequenceRatio()}, "PolicyGradient needs the log-prob of each token"),
    ({"sampler": GroupSampler(1)}, "GroupNormalized compares completions of one prompt.* 2 or more; got GroupSampler with 1"),
    ({"sampler": GroupSampler(1), "advantage": LeaveOneOut()}, "LeaveOneOut compares completions"),
    ({"advantage": GAE()}, "GAE needs values, and no critic gives them: set critic"),
    ({"critic": ValueHead()}, "ValueHead would be trained and never used: GroupNormalized needs no values"),
    (
        {"correction": TruncatedImportance(), "old_logprobs": "rollout"},
        "TruncatedImportance compares .* set old_logprobs to auto or recompute",
    ),
    ({"correction": MaskedImportance(), "old_logprobs": "rollout"}, "old_logprobs is 'rollout'"),
    ({"epochs": 0}, "needs epochs >= 1, got epochs=0"),
    ({"minibatches": 0}, "minibatches=0"),
    ({"stop_kl": 0.0}, "stop_kl > 0 or null, got stop_kl=0.0"),
    ({"old_logprobs": "recomputed"}, "old_logprobs to be 'auto' or 'rollout' or 'recompute', got old_logprobs='recomputed'"),
    ({"clip": GroupCentered()}, "GroupRelative.clip wants a ClipScheme, got GroupCentered"),
    ({"kl": ValueHead()}, "GroupRelative.kl wants a KL, got ValueHead"),
    ({"sampler": None}, "GroupRelative.sampler cannot be null"),
    ({"reference": None}, "GroupRelative.reference cannot be null"),
    ({"advantage": Curious()}, "Curious has entropy among its outputs, .* old_outputs"),
    ({"entropy": EntropyBonus(), "positive_nll": Doubtful()}, r"two parts read an output 'entropy' .*, Entropy\(\) and Other\(count=3\)"),
    ({"advantage": Greedy()}, "Greedy needs thoughts_logprobs, and GroupRelative has no such reference; .* ref_logprobs, teacher_logprobs"),
]


@pytest.mark.parametrize(("slots", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refused(slots: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GroupRelative(**slots)


WARNED = [
    ({"clip": NoClip(), "epochs": 2}, "NoClip has no bound, and 2 optimizer steps per rollout"),
    ({"clip": PolicyGradient(), "minibatches": 3}, "PolicyGradient has no bound, and 3 optimizer steps"),
    ({"kl": KLPenalty("k3", loss_coefficient=0.1, reward_coefficient=0.1)}, "KL is in the reward and in the loss"),
    ({"kl": KLPenalty("k1", loss_coefficient=0.1)}, "k1 in the loss has an expected gradient of 0"),
]


@pytest.mark.parametrize(("slots", "message"), WARNED, ids=[message for _, message in WARNED])
def test_warned(slots: dict, message: str) -> None:
    with pytest.warns(UserWarning, match=message):
        GroupRelative(**slots)


FINE = [
    {},
    {"ratio": SequenceRatio()},
    {"ratio": SequenceRatio(), "aggregation": SequenceSumTokenMean()},
    {"clip": RowConstantClip(), "aggregation": SequenceMean()},
    {"clip": NoClip()},
    {"clip": PolicyGradient()},
    {"clip": DecoupledClip(), "epochs": 4, "minibatches": 4, "stop_kl": 0.01},
    {"kl": KLPenalty("k1", reward_coefficient=0.1)},
    {"kl": KLPenalty("k1", loss_coefficient=0.1, off_policy=True)},
    {"kl": KLPenalty("k1")},
    {"correction": TruncatedImportance(), "old_logprobs": "recompute"},
    {"advantage": GAE(), "critic": ValueHead(), "sampler": GroupSampler(1)},
    {"kl": None, "token_weight": None},
]


@pytest.mark.parametrize("slots", FINE, ids=repr)
def test_fine(slots: dict) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GroupRelative(**slots)


def test_a_penalty_against_the_old_policy_holds_it_without_a_clip_and_k1_is_exact_there() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GroupRelative(clip=NoClip(), epochs=3, kl=KLPenalty("k1", loss_coefficient=1.0, against="old"))


def test_k1_in_the_loss_is_right_when_corrected_for_off_policy_samples() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GroupRelative(kl=KLPenalty("k1", loss_coefficient=0.1, off_policy=True))
