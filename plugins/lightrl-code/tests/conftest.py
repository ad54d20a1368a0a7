"""Whether programs can be kept in on this machine; where they cannot, the tests say so loudly."""

import warnings

import pytest
from lightrl_code.sandbox import Bubblewrap, Limits


def _trouble() -> str:
    try:
        Bubblewrap(Limits())
    except ValueError as error:
        return str(error)
    return ""


TROUBLE = _trouble()
if TROUBLE:
    warnings.warn(f"lightrl-code's sandbox is NOT TESTED on this machine: {TROUBLE}", stacklevel=1)


@pytest.fixture
def sandboxed() -> None:
    """Skips the test where bubblewrap does not work."""
    if TROUBLE:
        pytest.skip(TROUBLE)
