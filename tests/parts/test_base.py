import copy
import pickle

import pytest
from lightrl_curriculum import EnvironmentByColumn

from lightrl.parts.aggregation import ConstantLength, TokenMean
from lightrl.parts.base import Part, differs_by_rank, made_with, unpack
from lightrl.parts.clip import DecoupledClip
from lightrl.parts.critic import ValueHead
from lightrl.parts.environment import SingleTurn
from lightrl.parts.kl import AdaptiveKL, KLPenalty
from lightrl.prompt import JSON
from lightrl.types import WithStatistics


def test_a_part_remembers_its_arguments_by_name_and_no_defaults() -> None:
    assert made_with(DecoupledClip(0.1)) == {"low": 0.1}
    assert made_with(DecoupledClip(high=0.3, low=0.1)) == {"high": 0.3, "low": 0.1}
    assert made_with(ValueHead(detach=True, clip=None)) == {"detach": True, "clip": None}
    assert made_with(TokenMean()) == {}


def test_a_class_without_arguments_refuses_one() -> None:
    class Plain(Part):
        pass

    with pytest.raises(TypeError, match=r"Plain\(\) takes no arguments"):
        Plain(3)  # type: ignore[call-arg]


def test_all_arguments_of_a_part_that_takes_any_number_are_among_those_it_was_made_with() -> None:
    class Several(Part):
        def __init__(self, first: int, *terms: Part, last: int = 0, **named: int) -> None:
            pass

    mean = TokenMean()
    assert made_with(Several(1, mean, mean, last=2, more=3)) == {"first": 1, "terms": (mean, mean), "last": 2, "more": 3}
    assert made_with(Several(1)) == {"first": 1}


def test_but_changes_the_arguments_given_and_keeps_the_others() -> None:
    parent = DecoupledClip(low=0.1)
    variant = parent.but(high=0.5)
    assert (type(variant), variant.low, variant.high) == (DecoupledClip, 0.1, 0.5)
    assert (parent.low, parent.high) == (0.1, 0.28)
    assert made_with(variant.but(low=0.3)) == {"low": 0.3, "high": 0.5}
    with pytest.raises(TypeError, match="hihg"):
        parent.but(hihg=1.0)
    with pytest.raises(ValueError, match="DecoupledClip needs 0 <= low <= 1"):
        parent.but(low=2.0)


def test_but_makes_the_parts_in_the_arguments_anew() -> None:
    parent = KLPenalty(loss_coefficient=0.1, controller=AdaptiveKL(target=3.0))
    variant = parent.but(loss_coefficient=0.2)
    assert (variant.controller.target, variant.loss_coefficient) == (3.0, 0.2)
    assert variant.controller is not parent.controller
    chosen = EnvironmentByColumn({"first": SingleTurn()})
    assert chosen.but().environments["first"] is not chosen.environments["first"]


def test_but_starts_from_the_arguments_and_not_from_what_became_of_them() -> None:
    part = KLPenalty(loss_coefficient=0.1, controller=AdaptiveKL(target=3.0))
    part.observe(kl=100.0, rows=64)
    assert part.loss_coefficient != 0.1
    assert part.but().loss_coefficient == 0.1


def test_a_copy_of_a_part_remembers_as_well() -> None:
    assert made_with(pickle.loads(pickle.dumps(DecoupledClip(low=0.1)))) == {"low": 0.1}
    assert copy.deepcopy(ConstantLength(8)).but().length == 8


def test_a_part_without_state_refuses_some() -> None:
    part = DecoupledClip()
    part.load_state_dict(part.state_dict())
    with pytest.raises(ValueError, match=r"DecoupledClip .*\['x'\]"):
        part.load_state_dict({"x": 1})


def test_a_part_shows_its_arguments() -> None:
    assert repr(DecoupledClip(0.1, 0.3)) == "DecoupledClip(low=0.1, high=0.3)"


def test_results_with_and_without_statistics() -> None:
    assert unpack(3) == (3, {})
    assert unpack(WithStatistics(3, {"a": 1})) == (3, {"a": 1})


class Counting(DecoupledClip):
    """A clip scheme that counts, for parts that wrap it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def state_dict(self) -> dict[str, JSON]:
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        self.steps = int(str(state["steps"]))


class Wrapping(Part):
    def __init__(self, inner: Part | None, others: dict[str, Part] | None = None) -> None:
        self.inner, self._again, self.others = inner, inner, others or {}


def test_a_part_keeps_the_state_of_the_parts_within_it() -> None:
    """A clip scheme behind `TopEntropy` or `OffPolicyMask` forgot on every resume."""
    first, second = Counting(), Counting()
    first.steps, second.steps = 3, 5
    state = Wrapping(Wrapping(first), {"a": TokenMean(), "b": second}).state_dict()
    assert state == {"inner": {"inner": {"steps": 3}}, "others.b": {"steps": 5}}
    resumed = Wrapping(Wrapping(Counting()), {"a": TokenMean(), "b": Counting()})
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    assert Wrapping(TokenMean()).state_dict() == Wrapping(None).state_dict() == {}
    assert not differs_by_rank(resumed)
    first.state_per_rank = True
    assert differs_by_rank(Wrapping(Wrapping(first)))
    with pytest.raises(ValueError, match=r"Wrapping keeps no state, but the checkpoint has \['inner'\] for it"):
        Wrapping(None).load_state_dict(state["inner"])  # type: ignore[arg-type]
