"""Algorithms as class attributes: defaults, own parts, help, and the mistakes that are refused when the class is made."""

import inspect
from typing import ClassVar

import pytest

from lightrl import (
    AdaptiveKL,
    Algorithm,
    DecoupledClip,
    EntropyBonus,
    GroupRelative,
    KLPenalty,
    LossTerm,
    MaskTruncated,
    PolicyGradient,
    SequenceMean,
    TokenMean,
    TokenWeight,
)
from lightrl.algorithms.declaration import slots_of
from lightrl.ranges import Passes


class Stated(GroupRelative):
    """Every kind of statement: a part with a part in it, a plain value, a slot of its own, and a constant that is no argument."""

    kl = KLPenalty(loss_coefficient=0.1, controller=AdaptiveKL(target=3.0))
    epochs = 2
    """Passes, here two."""
    undecided: LossTerm | None = EntropyBonus(coefficient=0.001, aggregation=SequenceMean())
    """Keeps the policy undecided.

    In a slot of its own.
    """
    temper: float = 0.5
    """A plain value of its own; in [0, 1]."""
    family: ClassVar[str] = "tests"


class Variant(Stated):
    """Changes one argument of one part of its parent."""

    clip = Stated.clip.but(epsilon=0.1)


def parameter(cls: type[Algorithm], name: str) -> inspect.Parameter:
    return inspect.signature(cls).parameters[name]


def test_an_attribute_is_the_default_and_an_argument_replaces_it() -> None:
    assert (Stated().epochs, Stated().temper, Stated().kl.loss_coefficient) == (2, 0.5, 0.1)
    given = DecoupledClip()
    made = Stated(clip=given, epochs=3, kl=None)
    assert made.clip is given
    assert (made.epochs, made.kl) == (3, None)


def test_the_attribute_of_an_instance_is_its_own_and_that_of_the_class_stays() -> None:
    first, second = Stated(), Stated()
    for part in (lambda a: a.kl, lambda a: a.kl.controller, lambda a: a.undecided, lambda a: a.undecided.aggregation, lambda a: a.clip):
        assert len({id(part(first)), id(part(second)), id(part(Stated))}) == 3
    first.kl.observe(kl=100.0, rows=64)
    assert (second.kl.loss_coefficient, Stated.kl.loss_coefficient, Stated().kl.loss_coefficient) == (0.1, 0.1, 0.1)


def test_the_part_of_a_class_given_to_an_instance_is_made_anew() -> None:
    made = GroupRelative(clip=Variant.clip)
    assert (made.clip.epsilon, made.clip is Variant.clip) == (0.1, False)


def test_a_variant_states_one_argument_of_the_part_of_its_parent() -> None:
    assert (Variant().clip.epsilon, Stated().clip.epsilon) == (0.1, 0.2)
    assert type(Variant().clip) is type(Stated().clip)
    assert Variant().kl.controller.target == 3.0


def test_slots_and_values_follow_from_annotations() -> None:
    assert slots_of(Stated) == {**slots_of(Algorithm), "undecided": LossTerm}
    assert list(inspect.signature(Stated).parameters)[-2:] == ["undecided", "temper"]
    assert "family" not in inspect.signature(Stated).parameters
    assert list(Stated().loss_terms) == ["undecided"]
    assert parameter(Stated, "undecided").annotation == LossTerm | None
    assert parameter(Stated, "epochs").annotation == Passes


def test_defaults_are_those_of_a_config() -> None:
    of_kl = {"class_path": "lightrl.parts.kl.AdaptiveKL", "init_args": {"target": 3.0}}
    expected = {"class_path": "lightrl.parts.kl.KLPenalty", "init_args": {"loss_coefficient": 0.1, "controller": of_kl}}
    assert parameter(Stated, "kl").default == expected
    assert parameter(Stated, "temper").default == 0.5
    assert parameter(Algorithm, "sampler").default is inspect.Parameter.empty


def test_the_docstring_under_an_attribute_is_its_help() -> None:
    assert Stated.__init__.__doc__ is not None
    helps = dict(line.strip().split(": ", 1) for line in Stated.__init__.__doc__.partition("Args:\n")[2].splitlines())
    assert helps["epochs"] == "Passes, here two."
    assert helps["undecided"] == "Keeps the policy undecided. In a slot of its own."
    assert helps["temper"] == "A plain value of its own; in [0, 1]."
    assert helps["clip"] == "How far one update may go."


def test_an_algorithm_that_states_no_sampler_wants_one() -> None:
    class Bare(Algorithm):
        """It states nothing."""

    with pytest.raises(TypeError, match="Bare misses sampler, advantage, clip, aggregation: give it"):
        Bare()
    with pytest.raises(TypeError, match="abstract class Algorithm"):
        Algorithm()


def test_an_argument_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"GroupRelative has no argument 'clipp'. Did you mean clip\?"):
        GroupRelative(clipp=DecoupledClip())


@pytest.mark.parametrize(
    ("attributes", "error", "message"),
    [
        ({"clipp": DecoupledClip()}, TypeError, r"Wrong.clipp is DecoupledClip, and .* Did you mean clip\?"),
        ({"epoch": 4}, TypeError, r"Wrong.epoch is 4, and there is no argument of this name. Did you mean epochs\?"),
        ({"__init__": lambda self: None}, TypeError, "Wrong defines __init__, and an algorithm gets that from its attributes"),
        ({"clip": DecoupledClip}, ValueError, r"Wrong.clip is the class DecoupledClip: write DecoupledClip\(\)"),
        ({"clip": TokenMean()}, ValueError, "Wrong.clip wants a ClipScheme, got TokenMean"),
        ({"clip": None}, ValueError, "Wrong.clip cannot be null"),
    ],
    ids=["slot misspelt", "value misspelt", "constructor", "class for a part", "wrong kind", "null"],
)
def test_a_wrong_statement_is_refused_when_the_class_is_made(attributes: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        type("Wrong", (GroupRelative,), attributes)


class Asking(TokenWeight):
    """Asks another part."""

    def __init__(self, other: object, several: dict | None = None) -> None:
        self.other, self.several = other, several

    def weights(self, experience):
        raise NotImplementedError


ONE = PolicyGradient()


@pytest.mark.parametrize(
    "attributes",
    [
        {"clip": ONE, "token_weight": Asking(ONE)},
        {"token_weight": Asking(ONE), "clip": ONE},
        {"clip": ONE, "token_weight": Asking(None, several={"a": [ONE]})},
        {"token_weight": Asking(GroupRelative.clip)},
        {"entropy": EntropyBonus(aggregation=(shared := TokenMean())), "positive_nll": EntropyBonus(aggregation=shared)},
    ],
    ids=["after", "before", "deep", "of the parent", "one for two"],
)
def test_a_part_that_two_slots_of_a_class_hold_is_refused(attributes: dict) -> None:
    vars(ONE).pop("_describes", None)
    with pytest.raises(ValueError, match=r"is the part that describes \w+\.\w+.* Write a new one here, or .*\.but\(\)"):
        type("Crossed", (GroupRelative,), attributes)


def test_an_instance_asks_the_parts_that_it_was_given() -> None:
    clip = PolicyGradient()
    made = GroupRelative(clip=clip, token_weight=Asking(clip))
    assert made.token_weight.other is made.clip
    with pytest.raises(ValueError, match=r"GroupRelative\.token_weight\.other is the part that describes GroupRelative\.clip"):
        GroupRelative(token_weight=Asking(GroupRelative.clip))


def test_a_class_may_take_the_part_of_another_in_the_same_slot() -> None:
    class Taking(GroupRelative):
        """Its clip is that of another algorithm."""

        clip = Variant.clip
        token_weight = MaskTruncated()

    assert Taking().clip.epsilon == 0.1
    assert Taking().clip is not Variant().clip
