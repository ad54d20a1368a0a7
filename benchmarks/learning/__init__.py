"""Runs that learn: every algorithm, games, preferences, distillation, precisions."""
