"""An algorithm has its own copies of its parts, the union of their needs, and their state."""

from typing import Any

import pytest

from lightrl import (
    GAE,
    AdaptiveKL,
    Algorithm,
    DecoupledClip,
    Entropy,
    EntropyBonus,
    GroupRelative,
    KLPenalty,
    LossTerm,
    Part,
    PositiveNLL,
    SequenceMean,
    SymmetricClip,
    ValueHead,
)
from lightrl.algorithms.declaration import slots_of
from lightrl.arguments import arguments_of


class Deep(GroupRelative):
    """Parts inside parts as lazy defaults."""

    kl = KLPenalty(loss_coefficient=0.1, controller=AdaptiveKL(target=3.0))
    entropy = EntropyBonus(coefficient=0.5, aggregation=SequenceMean())


class Higher(Deep):
    """The smallest difference from its parent."""

    clip = DecoupledClip(high=0.3)


def all_parts(thing: Any) -> list[Part]:
    inside = thing.parts.values() if isinstance(thing, Algorithm) else [v for v in vars(thing).values() if isinstance(v, Part)]
    return [found for part in inside for found in (part, *all_parts(part))]


@pytest.mark.parametrize("algorithm", [GroupRelative, Deep, Higher])
def test_two_algorithms_share_no_part(algorithm: type[Algorithm]) -> None:
    first, second = algorithm(), algorithm()
    ours, theirs = all_parts(first), all_parts(second)
    assert [type(part) for part in ours] == [type(part) for part in theirs]
    assert not {id(part) for part in ours} & {id(part) for part in theirs}
    assert not any("Lazy" in type(part).__name__ for part in ours)


def test_changing_one_algorithm_leaves_the_other() -> None:
    first, second = Higher(), Higher()
    first.clip.high = 0.9
    first.kl.observe(kl=100.0, rows=64)
    first.kl.controller.target = 99.0
    first.entropy.aggregation.count_filtered = True
    assert second.clip.high == 0.3
    assert second.kl.loss_coefficient == 0.1
    assert second.kl.controller.target == 3.0
    assert not second.entropy.aggregation.count_filtered


def test_a_variant_inherits_what_it_does_not_state() -> None:
    algorithm = Higher()
    assert (algorithm.clip.low, algorithm.clip.high) == (0.2, 0.3)
    assert algorithm.entropy.coefficient == 0.5
    assert isinstance(algorithm.aggregation, SequenceMean)
    assert type(Deep().clip) is SymmetricClip
    assert Higher(kl=None).kl is None


def test_every_slot_is_there_and_the_required_ones_are_known() -> None:
    required = {"sampler", "advantage", "clip", "aggregation", "ratio", "reference"}
    assert {slot for slot, argument in arguments_of(Algorithm).items() if argument.part and not argument.slot.optional} == required
    assert set(GroupRelative().parts) == required
    assert set(slots_of(Algorithm)) > required


@pytest.mark.parametrize(
    ("slots", "needs"),
    [
        ({}, set()),
        ({"kl": KLPenalty()}, set()),
        ({"kl": KLPenalty(loss_coefficient=0.1)}, {"ref_logprobs"}),
        ({"entropy": EntropyBonus()}, {"entropy"}),
        ({"entropy": EntropyBonus(0)}, set()),
        ({"kl": KLPenalty(reward_coefficient=0.1), "entropy": EntropyBonus()}, {"ref_logprobs", "entropy"}),
        ({"advantage": GAE(), "critic": ValueHead(), "entropy": EntropyBonus()}, {"values", "entropy"}),
    ],
    # not repr: the order of a set differs between processes, and test workers must agree on names
    ids=["nothing", "kl 0", "kl", "entropy", "entropy 0", "kl and entropy", "critic and entropy"],
)
def test_what_is_computed_is_the_union_over_parts(slots: dict, needs: set[str]) -> None:
    algorithm = GroupRelative(**slots)
    assert algorithm.needs | algorithm.outputs.keys() == needs
    assert algorithm.old_outputs == {}


def test_a_watched_output_is_of_the_policy_that_sampled() -> None:
    algorithm = GroupRelative(watched=Entropy(), entropy=EntropyBonus())
    assert (list(algorithm.outputs), list(algorithm.old_outputs)) == (["entropy"], ["entropy"])


def test_only_terms_with_a_coefficient_are_in_the_loss() -> None:
    algorithm = GroupRelative(entropy=EntropyBonus(0), positive_nll=PositiveNLL(0.1))
    assert list(algorithm.loss_terms) == ["positive_nll"]


class WithTwoTerms(GroupRelative):
    """An algorithm with a slot of its own."""

    undecided: LossTerm | None = EntropyBonus(coefficient=0.3)
    """Keeps the policy undecided once more."""


def test_an_algorithm_may_add_a_slot() -> None:
    algorithm = WithTwoTerms(positive_nll=PositiveNLL(0.1))
    assert list(algorithm.loss_terms) == ["positive_nll", "undecided"]
    assert list(algorithm.outputs) == ["entropy"]
    assert list(slots_of(WithTwoTerms)) == [*slots_of(Algorithm), "undecided"]
    assert algorithm.undecided is not WithTwoTerms().undecided
    assert list(WithTwoTerms(undecided=None).loss_terms) == []
    with pytest.raises(ValueError, match=r"WithTwoTerms\.undecided .*LossTerm.*KLPenalty"):
        WithTwoTerms(undecided=KLPenalty())


def test_state_survives_a_restart_the_controller_included() -> None:
    first, second = Deep(), Deep()
    first.kl.observe(kl=12.0, rows=500)
    assert first.kl.loss_coefficient != second.kl.loss_coefficient
    second.load_state_dict(first.state_dict())
    assert second.kl.loss_coefficient == first.kl.loss_coefficient
    assert second.state_dict() == first.state_dict()


def test_state_of_another_algorithm_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\['kl'\], .*GroupRelative"):
        GroupRelative().load_state_dict(Deep().state_dict())


def test_steps_per_rollout() -> None:
    assert GroupRelative(epochs=3, minibatches=4).steps_per_rollout == 12


def test_an_algorithm_shows_its_parts() -> None:
    assert "clip=SymmetricClip(low=0.2, high=0.2, epsilon=0.2)" in repr(GroupRelative())
