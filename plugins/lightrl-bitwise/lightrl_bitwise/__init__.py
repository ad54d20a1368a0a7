"""Log-probs of engine and trainer that are equal to the bit, and gradients that do not depend on how the work is split."""

from lightrl import hookimpl
from lightrl_bitwise.engine import BitwiseEngine
from lightrl_bitwise.policy import BitwisePolicy

__all__ = ["BitwiseEngine", "BitwisePolicy"]


@hookimpl
def lightrl_engines() -> list[type]:
    return [BitwiseEngine]


@hookimpl
def lightrl_policies() -> list[type]:
    return [BitwisePolicy]
