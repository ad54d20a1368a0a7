"""Evaluation of a policy by completions, and of an engine by its log-probs."""
