"""Decoding in the trainer's process: requests become completions, token by token."""
