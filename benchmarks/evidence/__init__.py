"""Evidence for claims of the docs: strategies, published effects, curves of TRL, published data sets, versions, a day on a GPU."""
