"""Engines in workers beside the trainer: their weights, messages and failures."""
