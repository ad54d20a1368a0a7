"""Differences between versions of the packages that lightrl runs with, and packages that a part cannot do without."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

CACHE_ARGUMENTS = ("cache", "past_key_values")
"""The argument of a forward that takes keys and values: since transformers 5.24, and before."""
CUDA_MEMORY_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""The environment variable with the settings of CUDA's memory: since torch 2.9, and before."""


def cache_argument(forward: Callable[..., Any]) -> str | None:
    """The name under which a model's forward takes keys and values; None if it takes none. One of the hub may have the old one."""
    return next((name for name in CACHE_ARGUMENTS if name in inspect.signature(forward).parameters), None)


def layers_without_keys() -> tuple[type, ...]:
    """The classes of layers in a cache that keep nothing; before transformers 5.23 a cache had no place for those."""
    from transformers import cache_utils

    found = getattr(cache_utils, "DummyLayer", None)
    return () if found is None else (found,)


def dequantized() -> dict[str, Any]:
    """The options that have `from_pretrained` read a GGUF file into plain weights; before transformers 5.23 it did nothing else."""
    import transformers

    made = getattr(transformers, "GgufConfig", None)
    return {} if made is None else {"quantization_config": made(dequantize=True)}


def recompute_activations(model: Any) -> None:
    """Have a model compute its activations again in the backward pass; since transformers 5.23 the method has another name."""
    options = {"use_reentrant": False}
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(activation_checkpointing_kwargs=options)
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)


def recomputes_activations(model: Any) -> bool:
    """Whether `recompute_activations` was called for a model; since transformers 5.23 the attribute has another name."""
    name = "is_activation_checkpointing" if hasattr(type(model), "is_activation_checkpointing") else "is_gradient_checkpointing"
    return bool(getattr(model, name, False))


def cuda_memory_variable(torch_version: str) -> str:
    """The environment variable of a torch with the settings of CUDA's memory."""
    present, former = CUDA_MEMORY_VARIABLES
    return present if Version(torch_version).release >= (2, 9) else former


def refused_versions(owners: Iterable[str]) -> str | None:
    """The complaint about packages of a version that lightrl or an installed plugin does not run with; None if there are none.

    What runs is stated once, in the dependencies of each package: floors, and as `!=` the versions that are known not to work. pip keeps to
    them until another package is installed that wants something else. The heavy packages are not imported.
    """
    return complaint((owner, text) for owner in sorted(set(owners)) for text in requires(owner) or ())


def complaint(requirements: Iterator[tuple[str, str]]) -> str | None:
    """The message about `refused_versions`."""
    said: list[str] = []
    wanted: dict[str, str] = {}
    # reading one is slow, and most plugins name the same few
    there = functools.cache(installed_version)
    for owner, text in requirements:
        needed = Requirement(text)
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            found = there(needed.name)
            # 2.11.0a0+nv of a vendor's image is his 2.11
            if found is not None and not needed.specifier.contains(Version(found).base_version, prereleases=True):
                said.append(f"{owner} does not run with {needed.name} {found}; it needs {needed.name}{needed.specifier}.")
                wanted[needed.name] = f"{needed.name}{needed.specifier}"
    if not said:
        return None
    return "\n".join([" ".join(said), f"Type: pip install {' '.join(repr(one) for one in wanted.values())}"])


def installed_version(package: str) -> str | None:
    """The version of a distribution; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def required_package(module: str, install: str, owner: str) -> None:
    """Refuse a part whose package is not installed, when the part is made.

    Args:
        module: that the package is imported as, such as `ray`.
        install: for pip, such as `lightrl-ray[full]`.
        owner: the class that needs it.

    Raises:
        ValueError: it is not installed; the message says what to type.
    """
    if find_spec(module) is None:
        raise ValueError(f"{owner} needs the package {module}, which is not installed. Type: pip install '{install}'")
