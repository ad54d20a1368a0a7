"""Text and tokens: tokenizers, chat templates, conversations, and the tokens of each turn."""
