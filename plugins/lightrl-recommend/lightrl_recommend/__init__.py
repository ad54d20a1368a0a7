"""Which algorithm, when: runs of all online algorithms with equal completions, and what they say about a situation."""

from __future__ import annotations

from lightrl_recommend.measured import Measured, Row, Situation, measured
from lightrl_recommend.ranking import Rank, closest, ranking

__all__ = ["Measured", "Rank", "Row", "Situation", "closest", "measured", "ranking"]
