"""Verbs on data; the names below are for the commands of other packages too."""

from __future__ import annotations

from lightrl.import_path import lazy_names

_HOMES = {
    "lightrl.cli.data_tools.completion_columns": ["completion_file"],
    "lightrl.cli.data_tools.resumable_file": ["ResumableRows"],
    "lightrl.cli.data_tools.reward_report": ["number"],
    "lightrl.cli.data_tools.scoring_config": ["ScoringConfig", "read_scoring_config"],
}
__getattr__ = lazy_names(__name__, {name: module for module, names in _HOMES.items() for name in names})
