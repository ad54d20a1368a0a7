"""The scores of a prompt's completions over all its uses, in three numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class History:
    """Count, mean and population variance, each use of the prompt weighing the same."""

    uses: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def with_use(self, mean: float, variance: float) -> History:
        """After one more use with this mean and population variance.

        mean_i = (mean + (i-1) mean_{i-1}) / i, var_i = (var + (i-1) var_{i-1} + (i-1)/i (mean_{i-1} - mean)^2) / i.

        Source: Yang et al. 2025 (DCPO), arXiv:2509.02333, appendix A.7.
        """
        i, before = self.uses + 1, self.uses
        between = before / i * (self.mean - mean) ** 2
        return History(i, (mean + before * self.mean) / i, (variance + before * self.variance + between) / i)
