"""Numbers from inside a trunk, and numbers that travel through it, between rows of tokens and the positions that run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from lightrl.parts.base import TrunkOutput
from lightrl.rows import onto


@contextmanager
def listening(trunk: nn.Module, asked: Mapping[str, TrunkOutput]) -> Iterator[dict[str, Callable[[], Tensor]]]:
    """Within, the trunk runs once; then the functions give what was asked for."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(output.listen(trunk)) for name, output in asked.items()}


def at_predicted(found: Tensor, places: Tensor, lengths: Sequence[int]) -> Tensor:
    """`[n, L, ...]`: what was found where each token is predicted; 0 for the first of a row, and beyond what ran.

    Args:
        found: `[P, ...]` of the positions that ran.
        places: `[n, L]` int64, on the CPU: where each position stands among them; anything where it did not run.
        lengths: of n rows, the positions that ran.
    """
    rows, width = places.shape
    ran = torch.arange(width) < torch.tensor(lengths, dtype=torch.long)[:, None]
    chosen = found.index_select(0, onto(places[ran], found.device))
    # no row runs to its end: its last token predicts nothing
    predicted = ran.flatten().nonzero()[:, 0] + 1
    whole = found.new_zeros((rows * width, *found.shape[1:]))
    return whole.index_copy(0, onto(predicted, found.device), chosen).view(rows, width, *found.shape[1:])


def laid_out(steering: Mapping[str, Tensor], places: Tensor, lengths: Sequence[int], count: int) -> dict[str, Tensor]:
    """`[P, ...]` by name: what belongs to the token that each position predicts, the inverse of `at_predicted`.

    Where rows share a position, it is given what belongs to the first of them.

    Args:
        steering: `[n, L, ...]` by name, of each token.
        places: as in `at_predicted`.
        lengths: as in `at_predicted`.
        count: P.
    """
    if not steering:
        return {}
    rows, width = places.shape
    ran = torch.arange(width) < torch.tensor(lengths, dtype=torch.long)[:, None]
    predicted = ran.flatten().nonzero()[:, 0] + 1
    first = torch.full((count,), rows * width, dtype=torch.long).scatter_reduce(0, places[ran], predicted, "amin")
    # padding that runs is given zeros
    padded = {name: torch.cat([given.flatten(0, 1), given.new_zeros((1, *given.shape[2:]))]) for name, given in steering.items()}
    return {name: flat.index_select(0, onto(first, flat.device)) for name, flat in padded.items()}
