"""One optimizer step, made of micro-batches that fit the memory."""
