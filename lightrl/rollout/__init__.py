"""Rollouts: how completions are sampled from the policy."""
