"""The collector, the evaluation of a policy by completions, and that of an engine by its log-probs."""
