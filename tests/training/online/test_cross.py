"""Every pair of registered parts of different kinds takes a step together, or is refused when built with both named."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from lightrl_moe import TinyMixture
from lightrl_workshop import quiet_trainer

from lightrl import (
    GAE,
    Algorithm,
    DigitSorting,
    DiscountedReturn,
    GroupNormalized,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    LoraPolicy,
    MaskTruncated,
    PolicyOptimization,
    PolicySource,
    PromptData,
    Reference,
    SequenceMean,
    SingleTurn,
    SymmetricClip,
    Teacher,
    TinyPolicy,
    TransformersEngine,
    TrunkOutput,
    ValueHead,
)
from lightrl.algorithms.declaration import slots_of
from lightrl.algorithms.extras import asked_of, refuse_missing_extras
from lightrl.kinds import KINDS
from lightrl.parts.base import extras_of
from lightrl.parts.function import Function
from lightrl.registry.classes import registry
from lightrl.training.online.rollout_collector import tell_engine

ARGUMENTS: dict[str, dict[str, Any]] = {
    "AdvantageSum": {"advantages": {"outcome": GroupNormalized()}},
    "AtLeast": {"threshold": 0.0},
    "ConstantLength": {"length": 4},
    "GreedyBaselineSampler": {"group_size": 2},
    "KLPenalty": {"loss_coefficient": 0.1, "reward_coefficient": 0.1},
    "OutcomeShaping": {"missing_eos_penalty": 0.5},
    "PeriodicReference": {"every": 1},
    "PrivilegedTeacher": {"templates": ["{answer}{prompt}"]},
    "Teacher": {"policy": TinyPolicy(hidden=8, layers=1, heads=2, seed=1)},
    "MovingAverageReference": {"every": 1},
}
"""Arguments of classes whose defaults do not suffice, or do nothing."""

SLOTS = slots_of(Algorithm)
KIND_OF = {slot: next(title for title, kind in KINDS.items() if kind.base_class is base) for slot, base in SLOTS.items()}


def parts(slot: str) -> list[type[Any]]:
    return [cls for _, cls in registry().of_kind(KIND_OF[slot])]


def pairs() -> Iterator[tuple[str, type[Any], str, type[Any]]]:
    for one, other in itertools.combinations(SLOTS, 2):
        for first, second in itertools.product(parts(one), parts(other)):
            yield one, first, other, second


def make(cls: type[Any]) -> Any:
    return cls(**ARGUMENTS.get(cls.__name__, {}))


def bundle(chosen: dict[str, Any]) -> Algorithm:
    """The pair in an algorithm that gives each of the two what it needs, and is neutral otherwise."""
    slots: dict[str, Any] = dict(chosen)
    if "advantage" in chosen:
        wanted = extras_of(chosen["advantage"])
        giving = (made for made in map(make, parts("sampler")) if wanted <= made.gives)
        slots.setdefault("sampler", next(giving) if wanted else GroupSampler(4))
    elif "critic" in chosen:
        slots["advantage"] = GAE()
    elif "sampler" in chosen:
        slots["advantage"] = GroupNormalized() if chosen["sampler"].group_size > 1 else DiscountedReturn()
    needy = slots.get("advantage", GroupNormalized())
    if any("values" in part.needs for part in (needy, *slots.values())):
        slots.setdefault("critic", ValueHead())
    if not needy.needs_rewards and not needy.needs:
        slots.setdefault("token_weight", MaskTruncated())
    if "reference" in chosen:
        slots.setdefault("kl", KLPenalty(loss_coefficient=0.1))
    if any("teacher" in asked_of(part) for part in slots.values()):
        slots.setdefault("teacher", make(Teacher))
    neutral = {"sampler": GroupSampler(4), "advantage": GroupNormalized(), "clip": SymmetricClip(), "aggregation": SequenceMean()}
    old = "recompute" if "correction" in chosen else "rollout"
    return GroupRelative(**{**neutral, **slots}, old_logprobs=old)


class Crossing(PolicyOptimization):
    """One rollout with each of several algorithms, all from the same weights."""

    def __init__(self, bundles: dict[str, Algorithm], policy: PolicySource) -> None:
        self.bundles = bundles
        super().__init__(
            policy=policy,
            algorithm=next(iter(bundles.values())),
            rewards={"small": Function("lightrl_workshop.toy.small_digits", runs="inline")},
            engine=TransformersEngine(max_new_tokens=6, stop=["1", "2", "3"]),
            prompts_per_rollout=3,
            optimizer=lambda p: torch.optim.SGD(p, lr=0.1),
        )

    def training_step(self, batch: Any, batch_idx: int) -> None:
        names, algorithm = list(self.bundles.items())[self.trainer.current_epoch]
        self.adopt(algorithm)
        before = self.trainer.global_step
        try:
            super().training_step(batch, batch_idx)
        except Exception as error:
            raise AssertionError(f"{names}: {type(error).__name__}: {error}") from error
        assert self.trainer.global_step == before + 1, f"{names}: no optimizer step was made"
        assert all(parameter.isfinite().all() for parameter in self.parameters()), f"{names}: weights are not finite"

    def adopt(self, algorithm: Algorithm) -> None:
        """The module as if it were built with another algorithm, without the cost of a run for each."""
        self.policy.load_state_dict(self.learner.source.build().state_dict())
        self.algorithm = self.learner.algorithm = algorithm
        tell_engine(algorithm, self.collector.engine)
        self.learner.critic = None if algorithm.critic is None else algorithm.critic.build(self.policy)
        for reference in algorithm.references.values():
            reference.build(self.policy)


def _wants_adapters(algorithm: Algorithm) -> bool:
    return any(part.wants_adapters for part in algorithm.parts.values() if isinstance(part, Reference))


def _wants_routers(algorithm: Algorithm) -> bool:
    return any(isinstance(output, TrunkOutput) for output in algorithm.outputs.values())


def take_steps(bundles: dict[str, Algorithm], policy: PolicySource) -> None:
    trainer = quiet_trainer(max_epochs=len(bundles))
    trainer.fit(Crossing(bundles, policy), datamodule=PromptData(train=DigitSorting(length=2, examples=90)))
    assert trainer.global_step == len(bundles)


def built_or_refused(names: str, pair: dict[str, type[Any]]) -> Algorithm | None:
    """The algorithm, or None if it was refused with both named."""
    try:
        algorithm = bundle({slot: make(cls) for slot, cls in pair.items()})
        # as a module that is built with it would
        refuse_missing_extras(algorithm, SingleTurn())
        return algorithm
    except ValueError as error:
        refusal = str(error)
    unnamed = [cls.__name__ for cls in pair.values() if cls.__name__ not in refusal]
    assert not unnamed, f"{names}: the refusal does not name {unnamed}: {refusal}"
    return None


LONG = ("advantage", "clip", "entropy", "ratio", "sampler")
"""Slots whose pairs take half a minute and more."""


@pytest.mark.thorough
@pytest.mark.parametrize("one", [pytest.param(one, marks=pytest.mark.rare if one in LONG else []) for one in list(SLOTS)[:-1]])
@pytest.mark.filterwarnings("ignore")
def test_pairs(one: str) -> None:
    """Of one slot's parts with all parts of the slots after it."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    tiny = {False: TinyPolicy(hidden=8, layers=1, heads=2), True: TinyMixture(experts=4, hidden=8, layers=1, heads=2)}
    made: dict[tuple[bool, bool], dict[str, Algorithm]] = {}
    for other in list(SLOTS)[list(SLOTS).index(one) + 1 :]:
        for first, second in itertools.product(parts(one), parts(other)):
            names = f"{one}: {first.__name__}, {other}: {second.__name__}"
            algorithm = built_or_refused(names, {one: first, other: second})
            if algorithm is not None:
                made.setdefault((_wants_routers(algorithm), _wants_adapters(algorithm)), {})[names] = algorithm
    for (routers, adapters), bundles in made.items():
        take_steps(bundles, LoraPolicy(tiny[routers], r=2) if adapters else tiny[routers])


def test_every_pair_is_there() -> None:
    counts = [len(parts(slot)) for slot in SLOTS]
    assert all(counts)
    assert len(list(pairs())) == (sum(counts) ** 2 - sum(n**2 for n in counts)) // 2
