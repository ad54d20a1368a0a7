"""Verbs that run a config, or describe the run without starting it."""
