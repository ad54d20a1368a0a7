"""The policy: a causal language model, its tokenizer, and the forward pass that gives log-probs of sampled tokens."""
