"""The name of this distribution, and that of another project on PyPI whose files have the same folder."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

CORE = "lightrl-core"
"""The name of this one, whose registered names are reserved."""
OTHER = "lightrl"
"""The name of the other one."""
CURE = f"pip uninstall --yes {OTHER} && pip install --force-reinstall --no-deps {CORE}"
"""What to type; in a checkout `make install` does the same."""


def other_distribution() -> str | None:
    """The complaint about the other distribution, if it is installed beside this one; None if it is not."""
    try:
        found = version(OTHER)
    except PackageNotFoundError:
        return None
    return (
        f"the package {OTHER} {found} is installed beside {CORE}, and both write into the folder lightrl: some files may be of the other.\n"
        f"Type: {CURE} (in a checkout: make install)"
    )
