"""The learner: optimizer steps, made of micro-batches that fit the memory."""
