"""Whether programs can be kept in on this machine; where they cannot, the tests say so loudly."""

import sys
import warnings
from pathlib import Path

import pytest
from lightrl_code.sandbox import Bubblewrap, Limits

sys.path.insert(0, str(Path(__file__).parent))


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


@pytest.fixture(scope="session")
def sandbox_trouble() -> str:
    """Why bubblewrap does not work; empty if it does."""
    return TROUBLE
