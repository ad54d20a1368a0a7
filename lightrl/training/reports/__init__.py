"""Numbers of a run on their way to its logs."""
