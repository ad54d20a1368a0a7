"""What every algorithm is made of: parts in slots. GRPO and the others are packages in `plugins/`."""
