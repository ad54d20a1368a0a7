"""The options of TRL, verl and OpenRLHF and the keys that do the same here, for the errors that refuse them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

TRL = {
    "adam_beta1": "model.optimizer.betas",
    "beta": "model.algorithm.kl.loss_coefficient",
    "bf16": "trainer.precision, for example to bf16-mixed",
    "dataset_name": "data.train to JsonLines, Parquet or DatasetPrompts",
    "deepspeed": "trainer.strategy, for example to deepspeed_stage_2",
    "dtype": "model.policy.dtype",
    "epsilon": "model.algorithm.clip.epsilon",
    "epsilon_high": "model.algorithm.clip.high, of DecoupledClip",
    "eval_steps": "trainer.check_val_every_n_epoch",
    "eval_strategy": "trainer.check_val_every_n_epoch",
    "fp16": "trainer.precision, for example to bf16-mixed",
    "fsdp": "trainer.strategy, for example to fsdp2",
    "generation_batch_size": "model.prompts_per_rollout",
    "gradient_accumulation_steps": "model.micro_batch_tokens; no gradient depends on it",
    "gradient_checkpointing": "model.policy.gradient_checkpointing",
    "importance_sampling_level": "model.algorithm.ratio to TokenRatio or SequenceRatio",
    "learning_rate": "model.optimizer.lr",
    "log_completions": "nothing: completions are always logged",
    "logging_steps": "trainer.log_every_n_steps",
    "lora_alpha": "model.policy.alpha, of LoraPolicy",
    "lora_r": "model.policy to LoraPolicy, and model.policy.r",
    "lora_target_modules": "model.policy.target_modules, of LoraPolicy",
    "loss_type": "model.algorithm.aggregation, for example to TokenMean",
    "lr_scheduler_type": "model.lr_scheduler, for example to LinearLR",
    "mask_truncated_completions": "model.algorithm.token_weight to MaskTruncated",
    "max_completion_length": "model.engine.max_new_tokens",
    "max_grad_norm": "model.max_grad_norm",
    "max_length": "data.max_prompt_tokens",
    "max_new_tokens": "model.engine.max_new_tokens",
    "max_prompt_length": "data.max_prompt_tokens",
    "max_steps": "rollouts",
    "missing_eos_penalty": "model.algorithm.shaping to OutcomeShaping",
    "model_name_or_path": "model.policy.path",
    "num_generations": "model.algorithm.sampler.group_size",
    "num_iterations": "model.algorithm.epochs",
    "num_train_epochs": "rollouts",
    "optim": "model.optimizer",
    "output_dir": "trainer.default_root_dir",
    "per_device_eval_batch_size": "data.validation_batch_size",
    "per_device_train_batch_size": "model.prompts_per_rollout",
    "peft_config": "model.policy to LoraPolicy",
    "ref_model": "model.algorithm.reference; without it the policy as it was at the start",
    "ref_model_mixup_alpha": "model.algorithm.reference to PeriodicReference or MovingAverageReference",
    "report_to": "trainer.logger, for example to WandbLogger",
    "resume_from_checkpoint": "ckpt_path, for example to last",
    "reward_funcs": "model.rewards.NAME to the import path of a function",
    "reward_weights": "model.rewards.NAME.weight",
    "run_name": "trainer.logger.name",
    "save_steps": "trainer.callbacks to RunCheckpoints with every_rollouts",
    "scale_rewards": "model.algorithm.advantage to GroupNormalized or GroupCentered",
    "seed": "seed_everything",
    "steps_per_generation": "model.algorithm.minibatches",
    "sync_ref_model": "model.algorithm.reference to PeriodicReference or MovingAverageReference",
    "task_type": "nothing: LoraPolicy sets it",
    "temperature": "model.engine.temperature",
    "top_k": "model.engine.top_k",
    "top_p": "model.engine.top_p",
    "min_p": "model.engine.min_p",
    "torch_dtype": "model.policy.dtype",
    "train_dataset": "data.train to JsonLines, Parquet or DatasetPrompts",
    "use_liger_kernel": "nothing: logits are never held for all tokens at once",
    "use_peft": "model.policy to LoraPolicy",
    "use_vllm": "model.engine to VLLMEngine",
    "vllm_mode": "model.engine to VLLMEngine, whose server you start yourself",
    "warmup_ratio": "model.lr_scheduler, for example to LinearLR",
    "warmup_steps": "model.lr_scheduler, for example to LinearLR",
    "weight_decay": "model.optimizer.weight_decay",
}
"""Arguments of TRL's trainers and their configs."""
VERL = {
    "actor_rollout_ref.actor.clip_ratio": "model.algorithm.clip.epsilon",
    "actor_rollout_ref.actor.clip_ratio_c": "model.algorithm.clip to DualClip",
    "actor_rollout_ref.actor.clip_ratio_high": "model.algorithm.clip.high, of DecoupledClip",
    "actor_rollout_ref.actor.clip_ratio_low": "model.algorithm.clip.low, of DecoupledClip",
    "actor_rollout_ref.actor.entropy_coeff": "model.algorithm.entropy.coefficient",
    "actor_rollout_ref.actor.grad_clip": "model.max_grad_norm",
    "actor_rollout_ref.actor.kl_loss_coef": "model.algorithm.kl.loss_coefficient",
    "actor_rollout_ref.actor.kl_loss_type": "model.algorithm.kl.estimator",
    "actor_rollout_ref.actor.loss_agg_mode": "model.algorithm.aggregation, for example to TokenMean",
    "actor_rollout_ref.actor.optim.lr": "model.optimizer.lr",
    "actor_rollout_ref.actor.optim.weight_decay": "model.optimizer.weight_decay",
    "actor_rollout_ref.actor.ppo_epochs": "model.algorithm.epochs",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": "model.micro_batch_tokens",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": "model.micro_batch_tokens",
    "actor_rollout_ref.actor.ppo_mini_batch_size": "model.algorithm.minibatches",
    "actor_rollout_ref.actor.strategy": "trainer.strategy, for example to fsdp2",
    "actor_rollout_ref.actor.use_kl_loss": "model.algorithm.kl",
    "actor_rollout_ref.model.enable_gradient_checkpointing": "model.policy.gradient_checkpointing",
    "actor_rollout_ref.model.lora_rank": "model.policy to LoraPolicy",
    "actor_rollout_ref.model.path": "model.policy.path",
    "actor_rollout_ref.rollout.n": "model.algorithm.sampler.group_size",
    "actor_rollout_ref.rollout.name": "model.engine to VLLMEngine",
    "actor_rollout_ref.rollout.temperature": "model.engine.temperature",
    "actor_rollout_ref.rollout.top_k": "model.engine.top_k",
    "actor_rollout_ref.rollout.top_p": "model.engine.top_p",
    "actor_rollout_ref.rollout.val_kwargs.n": "model.evaluation.samples",
    "algorithm.adv_estimator": "model.algorithm, for example to GRPO or RLOO",
    "algorithm.filter_groups.enable": "model.algorithm.sampler to DynamicSampler",
    "algorithm.gamma": "gamma of model.algorithm.advantage",
    "algorithm.kl_ctrl.kl_coef": "model.algorithm.kl.reward_coefficient",
    "algorithm.lam": "lam of model.algorithm.advantage",
    "algorithm.use_kl_in_reward": "model.algorithm.kl.reward_coefficient",
    "critic.optim.lr": "model.algorithm.critic.learning_rate",
    "custom_reward_function.path": "model.rewards.NAME to the import path of a function",
    "data.max_prompt_length": "data.max_prompt_tokens",
    "data.max_response_length": "model.engine.max_new_tokens",
    "data.prompt_key": "data.train.prompt",
    "data.train_batch_size": "model.prompts_per_rollout",
    "data.train_files": "data.train.path",
    "data.val_batch_size": "data.validation_batch_size",
    "data.val_files": "data.validation",
    "reward_model.model.path": "model.rewards.NAME to RewardModel with path",
    "trainer.experiment_name": "trainer.logger.name",
    "trainer.n_gpus_per_node": "trainer.devices",
    "trainer.nnodes": "trainer.num_nodes",
    "trainer.project_name": "trainer.logger, for example to WandbLogger",
    "trainer.resume_mode": "ckpt_path, for example to last",
    "trainer.save_freq": "trainer.callbacks to RunCheckpoints with every_rollouts",
    "trainer.test_freq": "trainer.check_val_every_n_epoch",
    "trainer.total_epochs": "rollouts",
    "trainer.total_training_steps": "rollouts",
    "trainer.val_before_train": "model.evaluation.before_training",
}
"""Keys of verl's config of PPO, as typed on its command line."""
OPENRLHF = {
    "actor_learning_rate": "model.optimizer.lr",
    "advantage_estimator": "model.algorithm, for example to GRPO or RLOO",
    "apply_chat_template": "data.train.chat",
    "critic_learning_rate": "model.algorithm.critic.learning_rate",
    "dynamic_filtering": "model.algorithm.sampler to DynamicSampler",
    "entropy_loss_coef": "model.algorithm.entropy.coefficient",
    "eps_clip": "model.algorithm.clip.epsilon",
    "eps_clip_low_high": "model.algorithm.clip to DecoupledClip",
    "generate_max_len": "model.engine.max_new_tokens",
    "init_kl_coef": "model.algorithm.kl.loss_coefficient",
    "input_key": "data.train.prompt",
    "kl_estimator": "model.algorithm.kl.estimator",
    "label_key": "data.train.answer",
    "lambd": "lam of model.algorithm.advantage",
    "max_norm": "model.max_grad_norm",
    "micro_rollout_batch_size": "model.engine.max_rows",
    "micro_train_batch_size": "model.micro_batch_tokens",
    "n_samples_per_prompt": "model.algorithm.sampler.group_size",
    "num_episodes": "rollouts",
    "pretrain": "model.policy.path",
    "prompt_data": "data.train to JsonLines, Parquet or DatasetPrompts",
    "prompt_max_len": "data.max_prompt_tokens",
    "remote_rm_url": "model.rewards.NAME to a lightrl.AsyncReward of your own",
    "reward_pretrain": "model.rewards.NAME to RewardModel with path",
    "rollout_batch_size": "model.prompts_per_rollout",
    "save_path": "trainer.default_root_dir",
    "train_batch_size": "model.algorithm.minibatches",
    "use_kl_loss": "model.algorithm.kl",
    "use_wandb": "trainer.logger, for example to WandbLogger",
    "zero_stage": "trainer.strategy, for example to deepspeed_stage_2",
}
"""Options of OpenRLHF's commands."""
LIBRARIES: Mapping[str, Mapping[str, str]] = {"TRL": TRL, "verl": VERL, "OpenRLHF": OPENRLHF}


def key_here(key: str, value: object = None) -> str:
    """The end of a message about an unknown key that is an option of another library; empty if it is none.

    A key that ends like an option of TRL or OpenRLHF, such as `model.algorithm.beta`, is taken for it.

    Args:
        key: with its dots.
        value: its mapping, in which verl's options may stand.
    """
    for path in _leaves(key, value):
        for library, options in LIBRARIES.items():
            found = options.get(path) or (options.get(path.rpartition(".")[2]) if options is not VERL else None)
            if found is not None and found != path:
                option = path if options is VERL else path.rpartition(".")[2]
                return f" {library}'s {option!r}: here set {found}."
    return ""


def _leaves(key: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner)
    else:
        yield key
