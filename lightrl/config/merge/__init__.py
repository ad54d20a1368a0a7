"""Settings laid over each other: one tree of choices, with every problem that was found on the way."""
