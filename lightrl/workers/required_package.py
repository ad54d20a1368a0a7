"""A package that a part needs and that its plugin installs only if asked to."""

from __future__ import annotations

from importlib.util import find_spec


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
