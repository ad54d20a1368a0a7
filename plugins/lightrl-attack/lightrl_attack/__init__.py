"""Completions that earn a reward without doing the task; `lightrl reward attack` tries them on the rewards of a config."""

from __future__ import annotations

from lightrl_attack.attacks import Attack, attacks
from lightrl_attack.forms import FORMS, answer_text
from lightrl_attack.outcome import Earned, Verdict, verdict

__all__ = ["FORMS", "Attack", "Earned", "Verdict", "answer_text", "attacks", "verdict"]
