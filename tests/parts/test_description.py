"""Parts as defaults in a constructor: each describes one, and every instance makes its own."""

import pytest

from lightrl.parts.aggregation import Aggregation, SequenceMean, TokenMean
from lightrl.parts.clip import ClipScheme, DecoupledClip
from lightrl.parts.description import as_config, describe_defaults, own
from lightrl.parts.kl import AdaptiveKL, KLPenalty


class Holder:
    """Has a part as a default."""

    def __init__(self, clip: ClipScheme = DecoupledClip(low=0.1), aggregation: Aggregation | None = None) -> None:
        self.clip, self.aggregation = own(clip, "Holder.clip"), aggregation


describe_defaults(Holder)


def test_every_instance_makes_its_own_and_keeps_what_is_given() -> None:
    first, second, given = Holder(), Holder(), DecoupledClip()
    assert (first.clip.low, type(first.clip), first.clip is second.clip) == (0.1, DecoupledClip, False)
    assert Holder(given).clip is given


def test_a_subclass_that_inherits_the_constructor_may_be_described_again() -> None:
    class Heir(Holder):
        """Its defaults are those of its parent."""

    describe_defaults(Heir)
    assert Heir().clip.low == 0.1


def test_one_part_as_two_defaults_is_refused() -> None:
    one = TokenMean()

    class Twice:
        """Two arguments have one part."""

        def __init__(self, first: Aggregation = one, second: Aggregation = one) -> None:
            self.first, self.second = first, second

    with pytest.raises(ValueError, match=r"Twice\.second is the part that describes Twice\.first"):
        describe_defaults(Twice)


def test_a_part_as_a_config_has_it() -> None:
    part = KLPenalty(loss_coefficient=0.1, controller=AdaptiveKL(target=3.0))
    controller = {"class_path": "lightrl.parts.kl.AdaptiveKL", "init_args": {"target": 3.0}}
    expected = {"class_path": "lightrl.parts.kl.KLPenalty", "init_args": {"loss_coefficient": 0.1, "controller": controller}}
    assert as_config(part) == expected
    assert as_config(SequenceMean()) == {"class_path": "lightrl.parts.aggregation.SequenceMean"}
