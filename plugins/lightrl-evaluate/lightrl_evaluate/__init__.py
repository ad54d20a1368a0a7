"""Scores of lm-eval for a policy; `lightrl evaluate` adds them to the log of its run."""

from __future__ import annotations

from lightrl_evaluate.harness import Score, Settings, scores, tasks_named

__all__ = ["Score", "Settings", "scores", "tasks_named"]
