"""Which configs `make test` runs; `make thorough` runs the others."""

KINDS = {
    "grpo_sort", "grpo_lora_sort", "ppo_sort", "dapo_sort", "gspo_sort", "grpo_calculator", "grpo_blackjack", "ppo_reward_model_sort",
    "moe_replay", "distill_sort", "expert_iteration_sort", "dpo_sort", "kto_sort", "sft_sort", "reward_model_sort",
}  # fmt: skip
"""One for each kind of run."""
