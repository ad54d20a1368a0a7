"""What every part has in common: declared needs, state, and defaults that no two bundles share."""

from __future__ import annotations

import copy
from abc import ABC
from typing import Any, TypeVar

from lightrl.prompt import JSON
from lightrl.statistic import Statistics, WithStatistics

T = TypeVar("T")

NEEDS = frozenset({"ref_logprobs", "values", "entropy"})
"""What a part may ask of the core: a reference model's log-probs, a critic's values, the policy's entropy."""


class Part(ABC):  # noqa: B024 - each kind says what is abstract
    """One exchangeable piece of an algorithm.

    A part returns a value per token, row or pair; only the core reduces them. A part never calls `torch.distributed`.
    """

    state_per_rank: bool = False
    """The state differs from rank to rank, so a checkpoint holds one for each."""

    @property
    def needs(self) -> frozenset[str]:
        """What the core must compute for this part, a subset of `NEEDS`; a part whose coefficient is 0 needs nothing."""
        return frozenset()

    def state_dict(self) -> dict[str, JSON]:
        """What must survive a restart: tensors and JSON values only."""
        return {}

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Take back what `state_dict` gave.

        Raises:
            ValueError: the part keeps no state and was given some.
        """
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but the checkpoint has {sorted(state)} for it")

    def __repr__(self) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({arguments})"


def fresh(part: T) -> T:
    """A real instance in place of a `jsonargparse.lazy_instance` default; anything else is returned as it is.

    In Python, a lazy default is one object for all who inherit it, so two bundles would share their parts. Parts inside
    the part are made real and unshared as well.
    """
    real = _built(part) if _is_lazy(part) else part
    if isinstance(real, Part):
        for name, value in list(vars(real).items()):
            if _is_lazy(value):
                setattr(real, name, fresh(value))
    return real


def _is_lazy(value: Any) -> bool:
    return hasattr(value, "lazy_get_init_data")


def _built(lazy: Any) -> Any:
    cls = next(c for c in type(lazy).__mro__ if not _is_lazy(c))
    init_args = lazy.lazy_get_init_data().get("init_args")
    arguments = {} if init_args is None else vars(init_args)
    return cls(**{name: fresh(value) if _is_lazy(value) else copy.deepcopy(value) for name, value in arguments.items()})


def unpack(result: Any) -> tuple[Any, Statistics]:
    """Split what a part returned into its value and its statistics."""
    if isinstance(result, WithStatistics):
        return result.value, result.statistics
    return result, {}
