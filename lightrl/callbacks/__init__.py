"""Callbacks of a run, one per file: they show, log, save and watch a run, and train nothing."""
