"""The contracts: a file for each kind, with its title as the name, and `part` for the checks that hold for every class.

The file of a kind is imported when its checks are asked for: those of modules and callbacks import Lightning, which takes longer than all
checks of an advantage together.
"""

import importlib

from lightrl_workshop.checks.check import CHECKS, EVERY, NO_PARTS, Check


def own_checks(kind: str) -> list[Check]:
    """The checks that are of a kind alone, by its title, or those of every part (`EVERY`)."""
    # the file of every part has checks of kinds that are no parts too
    for of in (EVERY, kind):
        importlib.import_module(f"{__name__}.{of.lower().replace(' ', '_')}")
    return [check for check in CHECKS if check.kind == kind]


def checks_of(kind: str) -> list[Check]:
    """The contract of a kind: the checks for every part first, since a class that breaks one of them breaks others as well."""
    return [*([] if kind in NO_PARTS else own_checks(EVERY)), *own_checks(kind)]
