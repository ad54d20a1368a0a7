"""The part of the contract that is the same for every kind."""

from __future__ import annotations

from lightrl.parts.base import NEEDS, Part, unread_outputs
from lightrl.parts.objective import Objective
from lightrl.parts.step_part import StepPart
from lightrl_workshop.checks.check import EVERY, Make, contract_check, expect
from lightrl_workshop.checks.documentation import check_documentation
from lightrl_workshop.checks.preparation import check_preparation
from lightrl_workshop.checks.state import Registered, round_trip

KIND = EVERY


@contract_check(KIND, "it needs only what the core gives to parts of its kind")
def known_needs(make: Make[Registered]) -> None:
    """A part that asks for numbers that it never gets breaks most other checks as well, and this one says why."""
    part = make()
    needs = frozenset(part.needs)
    # an algorithm may have references in slots of its own, and refuses a word that none of them has
    unknown = sorted(word for word in needs - NEEDS if not word.endswith("_logprobs"))
    expect(not unknown, f"it needs {unknown}, and a part may need: {', '.join(sorted(NEEDS))}")
    # as `Algorithm` refuses it when it is built, whose own outputs are those of its parts
    complaint = unread_outputs(part) if isinstance(part, Part) else None
    expect(complaint is None, f"it {complaint}")
    offline = sorted(needs - {"ref_logprobs"}) if isinstance(part, Objective) else []
    expect(not offline, f"it needs {offline}, and an objective is given log-probs of policy and reference alone: it may need ref_logprobs")


@contract_check(KIND, "the class and each of its arguments is documented and typed")
def documented(make: Make[Registered]) -> None:
    """A docstring of its own, and `name: what it is` and a type for each argument."""
    check_documentation(type(make()))


@contract_check(KIND, "its state survives a restart")
def state_survives(make: Make[Registered]) -> None:
    """Saved, loaded without executing code, and taken back by a new instance."""
    round_trip(make(), make())


@contract_check(KIND, "what it prepares for a step depends on neither order, padding nor ranks")
def preparation(make: Make[Registered]) -> None:
    """And on nothing at masked positions; it is what the part says."""
    part = make()
    if isinstance(part, StepPart) and part.prepares:
        check_preparation(part)


@contract_check(KIND, "repr() names the class")
def can_be_shown(make: Make[Registered]) -> None:
    """So that a person who prints an algorithm sees its parts."""
    part = make()
    expect(type(part).__name__ in repr(part), f"repr() does not name the class: {part!r}")
