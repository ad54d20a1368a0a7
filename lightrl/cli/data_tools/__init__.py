"""Verbs that write or score completions."""
