"""lightrl trains language models with reinforcement learning; every algorithm is a set of parts that can be exchanged.

The public API, version 1, is everything in `__all__`, in the hooks of `lightrl.hookspecs` and, for tests, in `lightrl_workshop` of the
package lightrl-workshop. Its entry-point group is `lightrl.v1`. As long as the group has this name, a plugin that uses nothing else
continues to load, to pass its contract tests and to compute the same numbers. A release may add names, hooks, optional arguments after the
present ones, methods with a neutral default, statistics and further contract checks. It never removes or renames anything, and never
changes a shape, unit, default or order of arguments. A change that breaks this rule goes into `lightrl.v2`; a plugin may register in both
groups. Everything else may change with any release, including the paths of modules.

Names are imported on first use, so that `import lightrl` is fast.
"""

from __future__ import annotations

from lightrl.import_path import lazy_names
from lightrl.kinds import KINDS

__version__ = "0.1.0"

_HOME = {
    "lightrl.types": ["Denominators", "Experience", "Outcome", "PolicyOutput", "Rollout", "ScoredRollout", "TrainingBatch"],
    "lightrl.prompt": ["Prompt"],
    "lightrl.command": ["FunctionCommand"],
    "lightrl.import_path": ["imported"],
    "lightrl.statistic": ["Statistic", "WithStatistics"],
    "lightrl.hookspecs": ["hookimpl"],
    "lightrl.ops.agreement": ["Agreement", "Answer", "Limits", "stood_still"],
    "lightrl.parts.advantage": [
        "generalised_advantages",
        "GAE",
        "Advantages",
        "DiscountedReturn",
        "GroupCentered",
        "GroupNormalized",
        "LeaveOneOut",
        "NoAdvantage",
        "broadcast_to_tokens",
    ],
    "lightrl.ops.moments": ["whiten", "Moments", "moments", "GroupStatistics", "group_statistics"],
    "lightrl.ops.random": ["token_uniforms"],
    "lightrl.ranks": ["Ranks"],
    "lightrl.ops.thoughts": ["without_thoughts"],
    "lightrl.run_end": ["RunEndedError"],
    "lightrl.algorithms.algorithm": ["ActorCritic", "GroupRelative"],
    "lightrl.parts.base": ["Part", "PerToken", "TrunkOutput"],
    "lightrl.parts.aggregation": ["ConstantLength", "SequenceMean", "SequenceSum", "SequenceSumTokenMean", "TokenMean"],
    "lightrl.parts.clip": ["DecoupledClip", "NoClip", "PolicyGradient", "Surrogate", "SymmetricClip"],
    "lightrl.parts.correction": ["MaskedImportance", "TruncatedImportance"],
    "lightrl.parts.critic": ["ClippedCritic", "ValueHead"],
    "lightrl.parts.engine": ["PolicyWeights", "Request", "Result", "SampledPolicy", "Sampling"],
    "lightrl.parts.environment": ["AsyncEnvironment", "Reply", "SingleTurn", "own_opening"],
    "lightrl.parts.kl": ["AdaptiveKL", "KLPenalty"],
    "lightrl.parts.loss_term": ["EntropyBonus", "PositiveNLL", "RowLoss"],
    "lightrl.parts.sampler": ["deciding_reward", "metric_of", "Collection", "GroupSampler"],
    "lightrl.parts.step_part": ["Minibatch", "StepPart"],
    "lightrl.parts.objective": ["ChosenLikelihood", "LabelledObjective", "Likelihood", "PairObjective"],
    "lightrl.parts.output": ["Comparison", "Entropy"],
    "lightrl.parts.ratio": ["SequenceRatio", "TokenRatio"],
    "lightrl.parts.moving_reference": ["MovingAverageReference", "PeriodicReference"],
    "lightrl.parts.reference": ["BaseReference", "FrozenReference", "ModuleReference"],
    "lightrl.parts.reward": ["AsyncReward", "BatchReward", "RowReward", "LinearWeight"],
    "lightrl.parts.function": ["ExactMatch", "Function"],
    "lightrl.parts.shaping": ["OutcomeShaping"],
    "lightrl.parts.value_model": ["ValueModel"],
    "lightrl.parts.turn_advantage": ["TurnGAE", "TurnNormalized", "TurnReturn"],
    "lightrl.parts.token_weight": ["MaskTruncated"],
    "lightrl.policy.lora": ["AdapterSource", "LoraPolicy", "PeftPolicy", "SavedAdapters"],
    "lightrl.text.encoding": ["ConversationTokenizer", "TooLongConversation", "EncodedCompletion"],
    "lightrl.policy.policy": ["Policy"],
    "lightrl.policy.source": ["LoadedPolicy", "PretrainedPolicy"],
    "lightrl.policy.tiny": ["TinyPolicy"],
    "lightrl.policy.teacher": ["Teacher"],
    "lightrl.rollout.hosting.engine_host": ["EngineHost", "FailedWorkerError", "PublishedWeights", "WorkerLink"],
    "lightrl.rollout.hosting.engine_worker": ["EngineConnection", "serve_engine"],
    "lightrl.rollout.hosting.hosted_engine": ["HostedEngine"],
    "lightrl.rollout.hosting.process_host": ["ProcessEngine"],
    "lightrl.rollout.hosting.weight_bytes": ["PackedWeights"],
    "lightrl.rollout.decode.transformers_engine": ["TransformersEngine"],
    "lightrl.strategies.rank_memory": ["ModelSize", "RankMemory", "rank_memory"],
    "lightrl.versions": ["required_package"],
    "lightrl.workers.servers": ["ApiKey", "server_address"],
    "lightrl.data.tasks": ["SortedPairs", "Addition", "DigitSorting", "Reversal", "EpisodeSeeds"],
    "lightrl.data.files": ["DatasetPrompts", "JsonLines", "Parquet"],
    "lightrl.data.prompt_data": ["PromptData"],
    "lightrl.training.evaluating.metrics": [
        "AverageAtNScore",
        "HeldOutLoss",
        "MajorityAtNScore",
        "PassAtKScore",
        "PreferenceAccuracy",
        "TextExactMatch",
    ],
    "lightrl.training.online.policy_optimization": ["PolicyOptimization"],
    "lightrl.training.online.tensor_loss": ["TensorLoss"],
    "lightrl.training.offline.preference": ["PreferenceOptimization"],
    "lightrl.training.offline.rankings": ["RankingColumns"],
    "lightrl.training.offline.reward_modeling": ["RewardModeling"],
    "lightrl.training.offline.supervised": ["SupervisedFineTuning"],
}
"""Where each public name is defined, but for the abstract classes of the kinds, which `lightrl.kinds` has."""
MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
MODULE_OF |= {kind.base_name: kind.base.partition(":")[0] for kind in KINDS.values() if kind.base_is_ours}

__all__ = ["__version__", *sorted(MODULE_OF)]
__getattr__ = lazy_names(__name__, MODULE_OF)


def __dir__() -> list[str]:
    return __all__
