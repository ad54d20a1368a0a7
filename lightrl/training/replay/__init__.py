"""A recorded rollout that is learnt from once more, with its weights or without any."""
