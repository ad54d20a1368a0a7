"""Every verb builds from choices: factories, plain values that stand for objects, keys of refusals."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from lightrl_preference import DPO, MixedObjective

from lightrl import ClipScheme, EntropyBonus, LossTerm, NoClip, Objective, SymmetricClip
from lightrl.arguments import Argument, Slot
from lightrl.callbacks.run_checkpoints import RunCheckpoints
from lightrl.config.build.builder import Builder
from lightrl.config.describe.choice import Choice, default_of
from lightrl.config.merge.merger import Merger
from lightrl.config.read.refusals import ConfigError


@dataclass
class Limits:
    """A record."""

    low: float = 0.0
    names: tuple[str, ...] = ("a",)


class Holder:
    """A class with an argument of each shape."""

    def __init__(
        self,
        folder: Path,
        seen: set[int] | None = None,
        pair: tuple[float, float] = (0.9, 0.95),
        level: Literal["row", "token"] = "row",
        limits: Limits = Limits(),
        parts: dict[str, LossTerm] | None = None,
        count: int = 1,
    ) -> None:
        if count < 1:
            raise ValueError(f"count must be 1 or more, got {count}")
        self.folder, self.seen, self.pair, self.level, self.limits, self.parts = folder, seen, pair, level, limits, parts


def chosen(cls: type[Any], **given: Any) -> Choice:
    choice = Choice(cls, Slot("part", cls, cls))
    merger = Merger()
    merger.arguments(choice, given, "model", "a test")
    merger.problems.check()
    return choice


def test_plain_values_become_objects_of_their_types_and_the_config_keeps_them_as_yaml() -> None:
    choice = chosen(Holder, folder="some/where", seen=[3, 3, 4], limits={"names": ["b", "c"]})
    assert choice.arguments["seen"] == [3, 4]
    built = Builder().build(choice, "model")
    assert (built.folder, built.seen, built.pair) == (Path("some/where"), {3, 4}, (0.9, 0.95))
    assert (built.limits.low, built.limits.names) == (0.0, ("b", "c"))
    written = choice.as_config()["init_args"]
    assert (written["folder"], written["seen"], written["level"]) == ("some/where", [3, 4], "row")


def test_two_objects_share_no_default_part() -> None:
    choice = chosen(Holder, folder=".", parts={"entropy": "EntropyBonus"})
    first, second = (Builder().build(choice, "model") for _ in range(2))
    assert isinstance(first.parts["entropy"], EntropyBonus)
    assert first.parts["entropy"] is not second.parts["entropy"]
    assert first.limits is not second.limits


MIXED = MixedObjective({"high": DPO(beta=0.25), "low": DPO()})


class Nested:
    """Its default is a part that holds parts by name, and so is one argument."""

    def __init__(self, mixed: Objective = MIXED, terms: dict[str, LossTerm] = {"one": EntropyBonus()}) -> None:  # noqa: B006
        self.mixed, self.terms = mixed, terms


def test_a_default_part_that_holds_parts_by_name_is_built_with_them() -> None:
    choice = chosen(Nested, **{"mixed.objectives.low": {"init_args": {"beta": 0.5}}})
    first, second = (Builder().build(choice, "model") for _ in range(2))
    assert [part.beta for part in first.mixed.objectives.values()] == [0.25, 0.5]
    assert isinstance(first.terms["one"], EntropyBonus)
    assert first.terms["one"] is not second.terms["one"]
    assert first.mixed.objectives["high"] is not second.mixed.objectives["high"]
    written = choice.as_config()["init_args"]["mixed"]["init_args"]["objectives"]
    assert written["high"]["init_args"]["beta"] == 0.25


class Mapped(NoClip):
    """Its type is a mapping of parts."""

    def __init__(self, parts: Mapping[str, ClipScheme]) -> None:
        self.parts = parts


class Several(NoClip):
    """Its types hold parts as Python does, and not as a config does."""

    def __init__(self, parts: list[ClipScheme], **more: ClipScheme) -> None:
        self.parts, self.more = parts, more


def default(part: ClipScheme) -> Any:
    return default_of(Argument("clip", ClipScheme, part))


def test_a_default_with_parts_where_a_config_can_name_none_is_refused() -> None:
    built = Builder().build(default(Mapped({"low": SymmetricClip(epsilon=0.5)})), "model.objective")
    assert built.parts["low"].low == 0.5
    with pytest.raises(ConfigError, match=r"^Several\.parts: a default has parts in it, (?s:.*)dict\[str, Advantage\]"):
        default(Several([NoClip()]))
    with pytest.raises(ConfigError, match=r"^Several\.low: a default gives it, and a config cannot"):
        default(Several([], low=NoClip()))


def test_an_optimizer_is_a_class_with_arguments_that_can_be_copied_and_sent() -> None:
    slot = Slot("factory", None, torch.optim.Optimizer, supplied=1)
    make = Builder().build(Choice(torch.optim.SGD, slot, {"lr": 0.25}), "model.optimizer")
    weights = [torch.nn.Parameter(torch.zeros(2))]
    for factory in (make, copy.deepcopy(make), pickle.loads(pickle.dumps(make))):
        optimizer = factory(weights)
        assert isinstance(optimizer, torch.optim.SGD)
        assert optimizer.param_groups[0]["lr"] == 0.25


def test_a_refusal_names_the_key_and_an_unexpected_error_keeps_its_traceback() -> None:
    with pytest.raises(ConfigError) as refused:
        Builder().build(chosen(RunCheckpoints, keep=0), "model.log")
    assert refused.value.key == "model.log"
    with pytest.raises(ValueError, match="count must be"):  # raised by a module that is neither lightrl's nor a plugin's
        Builder().build(chosen(Holder, folder=".", count=0), "model.holder")


def test_the_part_at_work_gives_the_key_also_after_it_was_built() -> None:
    builder = Builder()
    clip = builder.build(chosen(SymmetricClip, epsilon=0.1), "model.algorithm.clip")
    with pytest.raises(ConfigError) as refused, builder.refusals("model"):
        clip.load_state_dict({"no": 1})
    assert refused.value.key == "model.algorithm.clip"
    with pytest.raises(ConfigError) as elsewhere, builder.refusals("model"):
        SymmetricClip().load_state_dict({"no": 1})
    assert elsewhere.value.key == "model"
