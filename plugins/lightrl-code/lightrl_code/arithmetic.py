"""A calculator as tools."""

from __future__ import annotations


def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: the first summand.
        b: the second summand.
    """
    return a + b


def subtract(a: int, b: int) -> int:
    """Subtract an integer from another.

    Args:
        a: from this.
        b: this is taken away.
    """
    return a - b


def multiply(a: int, b: int) -> int:
    """Multiply two integers.

    Args:
        a: the first factor.
        b: the second factor.
    """
    return a * b


def divide(a: int, b: int) -> float:
    """Divide an integer by another.

    Args:
        a: this is divided.
        b: by this, which is not 0.
    """
    return a / b
