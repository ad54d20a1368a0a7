"""Verbs that show what is installed and how algorithms differ."""
