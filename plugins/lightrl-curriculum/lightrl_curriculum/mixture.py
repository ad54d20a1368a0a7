"""Several data sets as one, drawn by weights that may change while the policy learns."""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Annotated

from annotated_types import Ge, Lt

from lightrl import Prompt, PromptSource

NonNegative = Annotated[float, Ge(0), Lt(math.inf)]
"""0 or more."""


@dataclass(frozen=True)
class LinearShare:
    """A weight that moves along a line: start + (end - start) min(1, drawn / prompts), then stays."""

    start: NonNegative
    """The weight at the first prompt."""
    end: NonNegative
    """The weight after `prompts` prompts."""
    prompts: Annotated[int, Ge(1)]
    """Prompts drawn, of all data sets and ranks together, from `start` to `end`; at least 1."""

    def __post_init__(self) -> None:
        if not (0 <= self.start < math.inf and 0 <= self.end < math.inf and self.prompts >= 1):
            raise ValueError(f"LinearShare needs start >= 0, end >= 0 and prompts >= 1, got {self}")

    def at(self, drawn: int) -> float:
        """The weight after this many prompts."""
        return self.start + (self.end - self.start) * min(1.0, drawn / self.prompts)


class Mixture(PromptSource):
    """Prompts of several sources; with weights, each source has its own order and is drawn as often as its share says.

    The share of source i after n prompts is w_i(n) / sum_j w_j(n), and the number of its prompts never differs from the sum of its
    shares by as much as the number of sources. A source whose prompts have all been drawn begins its next epoch alone. The name of its
    source is a column of each prompt, and stands before the prompt's id.
    """

    def __init__(
        self, sources: dict[str, PromptSource], weights: dict[str, NonNegative | LinearShare] | None = None, column: str = "source"
    ) -> None:
        """
        Args:
            sources: with a size each, by name.
            weights: a number or a schedule for each source, relative to each other; null: every prompt once per epoch, in one order.
            column: receives the name of a prompt's source.

        Raises:
            ValueError: no source, an endless one, weights of other sources, or weights that are all 0.
        """
        self.sources, self.weights, self.column = dict(sources), None if weights is None else dict(weights), column
        if not self.sources:
            raise ValueError("Mixture.sources is empty: name at least one source")
        endless = sorted(name for name, source in self.sources.items() if source.size is None)
        if endless:
            raise ValueError(f"Mixture.sources.{endless[0]} is endless, and a mixture needs sources with a size")
        if self.weights is not None and set(self.weights) != set(self.sources):
            raise ValueError(f"Mixture.weights has {sorted(self.weights)}, and the sources are {sorted(self.sources)}: give each a weight")
        self._names = list(self.sources)
        self._ends = list(accumulate(source.size or 0 for source in self.sources.values()))
        self.shares(0)

    @property
    def size(self) -> int:
        return self._ends[-1]

    def prompt(self, index: int) -> Prompt:
        name, source, within = self._found(index)
        prompt = source.prompt(within)
        if self.column in prompt.columns:
            raise ValueError(
                f"{source.place(within)} has a column {self.column!r}, which Mixture.column would write over: name another one"
            )
        return replace(prompt, id=f"{name}/{prompt.id}", columns={**prompt.columns, self.column: name})

    def place(self, index: int) -> str:
        """As the source says, with its name."""
        name, source, within = self._found(index)
        return f"{name}: {source.place(within)}"

    def content(self, index: int) -> str:
        """As the source says."""
        _, source, within = self._found(index)
        return source.content(within)

    def prepare(self) -> None:
        for source in self.sources.values():
            source.prepare()

    def part(self, index: int) -> str:
        """The name of the prompt's source."""
        return self._found(index)[0]

    def shares(self, drawn: int) -> Mapping[str, float]:
        """The shares of the sources; none without weights. ValueError: all weights are 0."""
        if self.weights is None:
            return {}
        now = {name: weight.at(drawn) if isinstance(weight, LinearShare) else weight for name, weight in self.weights.items()}
        whole = sum(now.values())
        if whole <= 0:
            raise ValueError(f"Mixture.weights are all 0 after {drawn} prompts: raise one of {sorted(now)}")
        return {name: weight / whole for name, weight in now.items()}

    def _found(self, index: int) -> tuple[str, PromptSource, int]:
        number = bisect_right(self._ends, index)
        return self._names[number], self.sources[self._names[number]], index - (self._ends[number - 1] if number else 0)
