"""Programs that run inside the sandboxes: plain scripts that import the standard library and nothing else."""
