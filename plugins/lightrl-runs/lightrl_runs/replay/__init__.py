"""The verb that learns once more from a recorded rollout, and compares two algorithms on it."""
