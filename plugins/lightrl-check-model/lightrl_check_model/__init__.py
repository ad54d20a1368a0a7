"""Checks a causal language model for faults that training would not show: leaks between rows, wrong caches, templates that never end."""

from lightrl_check_model.check import Check
from lightrl_check_model.checks import checks
from lightrl_check_model.families import TinyFamily, families

__all__ = ["Check", "TinyFamily", "checks", "families"]
