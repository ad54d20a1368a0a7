"""Learning from completions that the policy samples itself."""
