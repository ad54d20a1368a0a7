"""From the tree of choices to objects, the Trainer and the run."""
