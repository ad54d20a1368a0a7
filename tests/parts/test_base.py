import pytest
from jsonargparse import lazy_instance

from lightrl.parts.aggregation import Aggregation, SequenceMean, TokenMean
from lightrl.parts.base import Part, fresh, unpack
from lightrl.parts.clip import DecoupledClip
from lightrl.parts.kl import AdaptiveKL, KLPenalty
from lightrl.types import WithStatistics


class Holder(Part):
    """A part whose own default is lazy."""

    def __init__(self, inner: Aggregation = lazy_instance(TokenMean)) -> None:
        self.inner = inner


def test_a_real_part_is_left_alone() -> None:
    part = DecoupledClip()
    assert fresh(part) is part
    assert fresh(None) is None


def test_a_lazy_part_becomes_a_new_real_one_with_its_arguments() -> None:
    lazy = lazy_instance(DecoupledClip, low=0.1)
    first, second = fresh(lazy), fresh(lazy)
    assert type(first) is DecoupledClip
    assert (first.low, first.high) == (0.1, 0.28)
    assert first is not second


@pytest.mark.parametrize("controller", [lazy_instance(AdaptiveKL, target=3.0), AdaptiveKL(target=3.0)], ids=["lazy", "real"])
def test_parts_inside_a_lazy_part_are_real_and_not_shared(controller) -> None:
    lazy = lazy_instance(KLPenalty, loss_coefficient=0.1, controller=controller)
    first, second = fresh(lazy), fresh(lazy)
    assert type(first.controller) is AdaptiveKL
    assert first.controller.target == 3.0
    assert first.controller is not second.controller


def test_a_lazy_default_inside_a_real_part_is_made_real() -> None:
    first, second = fresh(Holder()), fresh(Holder())
    assert type(first.inner) is TokenMean
    assert first.inner is not second.inner
    given = SequenceMean()
    assert fresh(Holder(given)).inner is given


def test_a_part_without_state_refuses_some() -> None:
    part = DecoupledClip()
    part.load_state_dict(part.state_dict())
    with pytest.raises(ValueError, match=r"DecoupledClip keeps no state, but the checkpoint has \['x'\]"):
        part.load_state_dict({"x": 1})


def test_a_part_shows_its_arguments() -> None:
    assert repr(DecoupledClip(0.1, 0.3)) == "DecoupledClip(low=0.1, high=0.3)"


def test_results_with_and_without_statistics() -> None:
    assert unpack(3) == (3, {})
    assert unpack(WithStatistics(3, {"a": 1})) == (3, {"a": 1})
