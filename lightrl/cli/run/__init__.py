"""Verbs that run a config, or say what a run would be."""
