"""The verb that writes a model out of a checkpoint."""
