"""An algorithm as rows of a table: slot, part, arguments, formula and source."""

from __future__ import annotations

from collections.abc import Iterator

from lightrl.algorithms.slots import slots_of
from lightrl.config.algorithm_choice import arguments, parts_in
from lightrl.config.choice import Choice, shown
from lightrl.config.docstrings import documentation


def rows(chosen: Choice) -> Iterator[tuple[str, str, str, str, str]]:
    """Slot, part, arguments, formula and source, for every slot and for parts inside parts; an empty slot has `-`."""
    for slot in [name for name in slots_of(chosen.cls) if name in chosen.takes]:
        value = chosen.value(slot)
        if value is None:
            yield slot, "-", "", "", ""
        for key, part in parts_in(value, slot):
            about = documentation(part.cls)
            yield key, part.cls.__name__, arguments(part), about.formula, about.source
    for name in [name for name in chosen.takes if name not in slots_of(chosen.cls)]:
        value = chosen.value(name)
        yield name, value.cls.__name__ if isinstance(value, Choice) else shown(value), "", "", ""
