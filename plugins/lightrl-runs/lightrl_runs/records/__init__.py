"""Recorded rollouts: what one is, how it is packed into files, and where the files are."""
