"""Why a run of benchmarks/learning/chat_models.py stayed below its threshold, as far as it was looked into."""

REASONS: dict[tuple[str, str], str] = {}
"""By task and algorithm."""
