"""Verbs for those who write a plugin."""
