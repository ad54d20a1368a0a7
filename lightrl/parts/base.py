"""The base of every part: its needs, its state, the arguments it was made with, and the outputs of the policy that it may read."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from lightrl.prompt import JSON
from lightrl.ranges import ranges_of, refuse_outside
from lightrl.statistic import Statistics, WithStatistics

if TYPE_CHECKING:
    # worker processes import this module, and most of them have no use for torch
    from torch import Tensor, nn


T = TypeVar("T")

NEEDS = frozenset({"ref_logprobs", "teacher_logprobs", "values", "all_tokens"})
"""A part may ask the core for log-probs of the reference and the teacher, a critic's values and the rows of all ranks."""


class PerToken(str):
    """The name of an extra that a part reads as `[N, L]`, among its `needs`: `needs = frozenset({PerToken("near")})`."""

    __slots__ = ()


def extras_of(part: Part) -> frozenset[str]:
    """The names among the needs of a part that are extras: neither a word of `NEEDS` nor the log-probs of a reference."""
    return frozenset(name for name in part.needs if name not in NEEDS and not name.endswith("_logprobs"))


class Part(ABC):  # noqa: B024 - each kind says what is abstract
    """One exchangeable piece of an algorithm.

    A part returns a value per token, row or pair; only the core reduces them. A part never calls `torch.distributed`.
    """

    state_per_rank: bool = False
    """The state differs from rank to rank, so a checkpoint holds one for each."""
    exceptions: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Checks of its contract that the class does not keep: the title of the check, and the reason. `contract_tests`,
    `lightrl plugins check` and every run with the class say them."""

    # hidden from the type checker, which would take any argument for a class without an `__init__`
    if not TYPE_CHECKING:

        def __new__(cls, *args, **kwargs):
            if cls.__init__ is object.__init__ and (args or kwargs):
                raise TypeError(f"{cls.__name__}() takes no arguments")
            self = super().__new__(cls)
            object.__setattr__(self, "_made_with", (args, kwargs))
            if ranges_of(cls):
                refuse_outside(cls, _by_name(cls, args, kwargs))
            return self

    def but(self, **changes: object) -> Self:
        """A new part of this class: made with the same arguments, except those given here. Parts among them are made anew."""
        return type(self)(**{name: copied(value) for name, value in made_with(self).items()} | changes)

    @property
    def needs(self) -> frozenset[str]:
        """Names of all that it reads beside rewards and tokens: `NEEDS`, log-probs of references, and extras; none with a coefficient of 0.

        An extra is what the environment or a part before it learnt of a row `[N]`, or of tokens `[N, L]` if it is `PerToken`. By default
        all that the parts within it need.
        """
        return frozenset[str]().union(*(part.needs for part in _inner(self)))

    @property
    def gives(self) -> frozenset[str]:
        """Names of the extras that it leaves for the parts after it; by default those of the parts within it."""
        return frozenset[str]().union(*(part.gives for part in _inner(self)))

    @property
    def needs_rewards(self) -> bool:
        """It reads rewards; a config needs some if a part does. By default as the parts within it."""
        return any(part.needs_rewards for part in _inner(self))

    @property
    def compares(self) -> bool:
        """It compares completions of one prompt: `group_size` is 2 or more, and no optimizer step has a part of a group. By default
        as the parts within it."""
        return any(part.compares for part in _inner(self))

    @property
    def sees_steps(self) -> bool:
        """The part is asked while an optimizer step is computed, and may have `outputs`."""
        return False

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The outputs of the current policy that it reads while a step is computed; none with a coefficient of 0. By default those of
        the parts within it."""
        return tuple(output for part in _inner(self) for output in part.outputs)

    @property
    def old_outputs(self) -> tuple[Output, ...]:
        """Those of the policy before the first step on a rollout; they cost a forward pass, unless the old log-probs need one too."""
        return tuple(output for part in _inner(self) for output in part.old_outputs)

    @property
    def rollout_outputs(self) -> tuple[TrunkOutput, ...]:
        """Those of the policy while it sampled, which stand in the extra `rollout_` and their name if the engine records them."""
        return ()

    def state_dict(self) -> dict[str, JSON]:
        """The state that must survive a restart: tensors and JSON values only. By default that of the parts within it, by attribute."""
        return {name: state for name, part in parts_within(self).items() if (state := part.state_dict())}

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Take back what `state_dict` gave; a ValueError if neither the part nor one within it keeps some of it."""
        within = parts_within(self)
        if unknown := sorted(set(state) - set(within)):
            raise ValueError(f"{type(self).__name__} keeps no state, but the checkpoint has {unknown} for it")
        for name, of_part in state.items():
            within[name].load_state_dict(of_part)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({arguments})"


class Output(Part):
    """A number of the policy at each sampled token, made of all logits there.

    A part has it among its `outputs` and reads it with `output.needed(name)`: that of the current policy, with gradient. Among its
    `old_outputs` it is that of the policy before the first step on a rollout, and stands in `experience.extra("old_" + name)`.
    """

    name: str
    """Under which parts read it, and it is logged."""

    @property
    def old_outputs(self) -> tuple[Output, ...]:
        # an output in a slot of its own is watched, in the policy that sampled
        return (self,)

    @abstractmethod
    def compute(self, logits: Tensor, ids: Tensor) -> Tensor:
        """`[k]`: a number of each position; a gradient flows through what autograd sees.

        Positions come in chunks, and each chunk is computed again for the gradient, so that the logits of all positions are never there
        at once. A row of the logits may not look at another.

        Args:
            logits: `[k, V]` in float32 or wider, divided by the rollout's temperature; stays as it is. -inf: a token that is never
                sampled.
            ids: `[k]` int64, the sampled tokens.
        """


class TrunkOutput(Output):
    """Numbers of the policy at each token that come from inside its trunk, such as the experts that a token was sent to.

    Those of token t are found where token t is predicted, as log-probs are: at the position before it. They are there for every token but
    the first of a row, prompts included.
    """

    @abstractmethod
    def listen(self, trunk: nn.Module) -> AbstractContextManager[Callable[[], Tensor]]:
        """Within, the trunk runs once. Then the function that was entered gives `[P, ...]`: of each position that ran, in their order.

        The trunk is all but the head of a causal LM. Rows may stand behind one another without padding, so P is less than rows times
        length. Operations with a gradient belong into the function: what happens within the trunk is done again, without listening,
        where activations are recomputed.
        """

    def like(self, uniforms: Tensor) -> Tensor:
        """Numbers that it might give for uniforms `[N, L]` in [0, 1), for the contract of parts that read it; by default one per token."""
        return uniforms

    def compute(self, logits: Tensor, ids: Tensor) -> Tensor:
        """Raise a RuntimeError: logits do not say it."""
        raise RuntimeError(f"{type(self).__name__} comes from inside the trunk: listen to it while it runs")


def made_with(part: Part) -> dict[str, object]:
    """The arguments that a part was made with, by name; those left at their default are not in it."""
    args, kwargs = vars(part)["_made_with"]
    if not (args or kwargs):
        # the signature of object.__init__ keeps a copy of sys.modules alive
        return {}
    bound = inspect.signature(type(part).__init__).bind(part, *args, **kwargs)
    (_, *given) = bound.arguments.items()
    kinds = {name: parameter.kind for name, parameter in bound.signature.parameters.items()}
    return {name: value for name, value in given if kinds[name] is not inspect.Parameter.VAR_KEYWORD} | bound.kwargs


def parts_within(part: Part) -> dict[str, Part]:
    """The parts that a part holds in its attributes, by their names; those of a dict behind the attribute's name and a dot."""
    members = {name: value if isinstance(value, dict) else {"": value} for name, value in vars(part).items() if name != "_made_with"}
    found = {f"{name}.{key}".rstrip("."): part for name, group in members.items() for key, part in group.items() if isinstance(part, Part)}
    names = {id(part): name for name, part in reversed(found.items())}
    return {name: part for name, part in found.items() if names[id(part)] == name}


def _inner(part: Part) -> list[Part]:
    # an output that a part holds is read only where the part says so
    return [inner for inner in parts_within(part).values() if not isinstance(inner, Output)]


def differs_by_rank(part: Part) -> bool:
    """Whether the state of a part, or of one within it, is of each rank its own."""
    return part.state_per_rank or any(map(differs_by_rank, parts_within(part).values()))


def _by_name(cls: type[Part], args: tuple[object, ...], kwargs: dict[str, object]) -> Mapping[str, object]:
    try:
        given = inspect.signature(cls.__init__).bind_partial(None, *args, **kwargs).arguments
    except TypeError:
        # the constructor itself says which argument it does not know
        return {}
    return {name: value for name, value in (given | kwargs).items() if name in ranges_of(cls)}


def copied(value: object, of_part: Callable[[Part], object] = lambda part: part.but()) -> object:
    """A copy of an argument, in which something stands for each part: one like it, made anew, or what a function gives."""
    if isinstance(value, Part):
        return of_part(value)
    if isinstance(value, dict):
        return {name: copied(member, of_part) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(copied(member, of_part) for member in value)
    return copy.deepcopy(value)


def unread_outputs(part: Part) -> str | None:
    """A complaint, if a part has outputs of the current policy and is never given them."""
    if part.sees_steps or not part.outputs:
        return None
    named = ", ".join(output.name for output in part.outputs)
    return (
        f"has {named} among its outputs, which are there while a step is computed, for loss terms, clip schemes and ratios alone: have "
        "them among old_outputs, those of the policy that sampled"
    )


def unpack(result: T | WithStatistics) -> tuple[T, Statistics]:
    """Split what a part returned into its value and its statistics."""
    if isinstance(result, WithStatistics):
        return result.value, result.statistics
    return result, {}


class FaultyPartError(ValueError):
    """A part has returned something that cannot be used; the message says which part, what it returned and what was expected.

    The command line prints it without a traceback, also in the middle of a run.
    """
