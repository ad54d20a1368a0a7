"""Time and memory, beside TRL and as the work grows."""
