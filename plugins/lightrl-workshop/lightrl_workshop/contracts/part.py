"""The part of the contract that is the same for every kind, and what a part prepares for an optimizer step."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

import torch
from torch import Tensor

from lightrl.parts.base import NEEDS, Part, unread_outputs
from lightrl.parts.objective import Objective
from lightrl.parts.step_part import StepPart
from lightrl.ranks import Ranks
from lightrl.types import TrainingBatch
from lightrl_workshop.checks.check import EVERY, Make, Registered, check_documentation, contract_check, expect, expect_same, round_trip
from lightrl_workshop.checks.examples import brief, experiences, poisoned, read_extras, shuffled
from lightrl_workshop.checks.steps import minibatch
from lightrl_workshop.ranks import on_ranks

KIND = EVERY
DOCUMENTED = "the class and each of its arguments is documented and typed"


@contract_check(KIND, "it needs only what the core gives to parts of its kind")
def known_needs(make: Make[Registered]) -> None:
    """A part that asks for numbers that it never gets breaks most other checks as well, and this one says why."""
    part = make()
    needs = frozenset(part.needs)
    # an algorithm may have references in slots of its own, and extras of any name: it refuses what nothing gives
    alike = {word: get_close_matches(word, NEEDS, n=1, cutoff=0.8) for word in needs - NEEDS}
    misspelt = [f"{word} ({near[0]}?)" for word, near in sorted(alike.items()) if near]
    expect(not misspelt, f"it needs {', '.join(misspelt)}; the core gives {', '.join(sorted(NEEDS))}, and other names are extras")
    # as `Algorithm` refuses it when it is built, whose own outputs are those of its parts
    complaint = unread_outputs(part) if isinstance(part, Part) else None
    expect(complaint is None, f"it {complaint}")
    offline = sorted(needs - {"ref_logprobs"}) if isinstance(part, Objective) else []
    expect(not offline, f"it needs {offline}, and an objective is given log-probs of policy and reference alone: it may need ref_logprobs")


@contract_check("callback", DOCUMENTED)
@contract_check("module", DOCUMENTED)
@contract_check(KIND, DOCUMENTED)
def documented(make: Make[Registered]) -> None:
    check_documentation(type(make()))


@contract_check(KIND, "its state survives a restart")
def state_survives(make: Make[Registered]) -> None:
    round_trip(make(), make())


@contract_check(KIND, "what it prepares for a step depends on neither order, padding nor ranks")
def preparation(make: Make[Registered]) -> None:
    """And on nothing at masked positions; it is what the part says."""
    part = make()
    if isinstance(part, StepPart) and type(part).prepare is not StepPart.prepare:
        check_preparation(part)


@contract_check(KIND, "compares is declared if what it prepares depends on which completions share a prompt")
def grouped(make: Make[Registered]) -> None:
    """Then a step needs whole groups."""
    part = make()
    if not isinstance(part, StepPart) or part.compares or not part.gives:
        return
    for rows in experiences():
        rows.extras = read_extras(part, rows, rows.old_logprobs)
        apart = replace(rows, group=torch.arange(len(rows)))
        what = "where each row has a prompt of its own it prepares something else as {}, so declare compares = True"
        found = prepared(part, apart)
        for name, values in prepared(part, rows).items():
            expect_same(values.double(), found[name].double(), what.format(name), **brief(rows))


@contract_check(KIND, "repr() names the class")
def can_be_shown(make: Make[Registered]) -> None:
    part = make()
    expect(type(part).__name__ in repr(part), f"repr() does not name the class: {part!r}")


def check_preparation(part: StepPart) -> None:
    """Prepare for the same step in another order, with padding, with NaN at masked positions, and by two ranks."""
    for rows in experiences():
        rows.extras = read_extras(part, rows, rows.old_logprobs)
        whole, width = prepared(part, rows), rows.input_ids.shape[1]
        expect(whole.keys() == part.gives, f"it prepares {sorted(whole)}, and says that it gives {sorted(part.gives)}")
        order = shuffled(len(rows))
        first = [i for i in range(len(rows)) if rows.group[i] == rows.group[0]]
        shares = [first, [i for i in range(len(rows)) if i not in first]]

        def of_rank(rank: int, ranks: Ranks, rows: TrainingBatch = rows, shares: list[list[int]] = shares) -> dict[str, Tensor]:
            return prepared(part, rows.select(shares[rank]), ranks)

        together = on_ranks(2, of_rank)
        seen = replace(poisoned(rows), token_weight=rows.token_weight)
        for name, values in whole.items():
            expect(values.shape[0] == len(rows), f"{name} has the shape {list(values.shape)}, of {len(rows)} rows", **brief(rows))
            found = {
                "rows in another order": (values[order], prepared(part, rows.select(order))[name]),
                "three padded positions": (values, cut(prepared(part, rows.padded(width + 3))[name], width)),
                "NaN at masked positions": (values, prepared(part, seen)[name]),
                "two ranks": (values[shares[0] + shares[1]], torch.cat([found[name] for found in together])),
            }
            for what, (one, other) in found.items():
                expect_same(one.double(), other.double(), f"{what} change what it prepares as {name}", **brief(rows))


def prepared(part: StepPart, rows: TrainingBatch, *ranks: Ranks) -> dict[str, Tensor]:
    """The numbers that it prepares, 0 where there is no loss."""
    step = minibatch(part, rows, *ranks)
    return {name: torch.where(step.mask, value, 0) if value.dim() > 1 else value for name, value in part.prepare(step).items()}


def cut(values: Tensor, width: int) -> Tensor:
    """The first positions."""
    return values[:, :width] if values.dim() > 1 else values
