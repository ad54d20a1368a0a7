"""The parts of the core, registered by the same hooks as the parts of every plugin."""

from __future__ import annotations

from typing import Any

from lightrl.data.files import DatasetPrompts, JsonLines, Parquet
from lightrl.data.tasks import Addition, DigitSorting, EpisodeSeeds, Reversal, SortedPairs
from lightrl.hookspecs import hookimpl
from lightrl.parts.advantage import GAE, DiscountedReturn, GroupCentered, GroupNormalized, LeaveOneOut
from lightrl.parts.aggregation import ConstantLength, SequenceMean, SequenceSum, SequenceSumTokenMean, TokenMean
from lightrl.parts.clip import DecoupledClip, NoClip, PolicyGradient, SymmetricClip
from lightrl.parts.correction import MaskedImportance, TruncatedImportance
from lightrl.parts.critic import ValueHead
from lightrl.parts.environment import SingleTurn
from lightrl.parts.function import ExactMatch, Function
from lightrl.parts.kl import AdaptiveKL, KLPenalty
from lightrl.parts.loss_term import EntropyBonus, PositiveNLL
from lightrl.parts.moving_reference import MovingAverageReference, PeriodicReference
from lightrl.parts.objective import ChosenLikelihood
from lightrl.parts.output import Entropy
from lightrl.parts.ratio import SequenceRatio, TokenRatio
from lightrl.parts.reference import BaseReference, FrozenReference
from lightrl.parts.sampler import GroupSampler
from lightrl.parts.shaping import OutcomeShaping
from lightrl.parts.token_weight import MaskTruncated
from lightrl.parts.turn_advantage import TurnGAE, TurnNormalized, TurnReturn
from lightrl.parts.value_model import ValueModel
from lightrl.policy.lora import LoraPolicy, PeftPolicy, SavedAdapters
from lightrl.policy.source import PretrainedPolicy
from lightrl.policy.teacher import Teacher
from lightrl.policy.tiny import TinyPolicy
from lightrl.rollout.decode.transformers_engine import TransformersEngine
from lightrl.rollout.hosting.process_host import ProcessEngine


@hookimpl
def lightrl_samplers() -> list[type[Any]]:
    return [GroupSampler]


@hookimpl
def lightrl_rewards() -> list[type[Any]]:
    return [ExactMatch, Function]


@hookimpl
def lightrl_advantages() -> list[type[Any]]:
    return [GAE, DiscountedReturn, GroupCentered, GroupNormalized, LeaveOneOut, TurnGAE, TurnNormalized, TurnReturn]


@hookimpl
def lightrl_ratios() -> list[type[Any]]:
    return [SequenceRatio, TokenRatio]


@hookimpl
def lightrl_clip_schemes() -> list[type[Any]]:
    return [DecoupledClip, NoClip, PolicyGradient, SymmetricClip]


@hookimpl
def lightrl_shapings() -> list[type[Any]]:
    return [OutcomeShaping]


@hookimpl
def lightrl_kls() -> list[type[Any]]:
    return [KLPenalty]


@hookimpl
def lightrl_kl_controllers() -> list[type[Any]]:
    return [AdaptiveKL]


@hookimpl
def lightrl_aggregations() -> list[type[Any]]:
    return [ConstantLength, SequenceMean, SequenceSum, SequenceSumTokenMean, TokenMean]


@hookimpl
def lightrl_token_weights() -> list[type[Any]]:
    return [MaskTruncated]


@hookimpl
def lightrl_critics() -> list[type[Any]]:
    return [ValueHead, ValueModel]


@hookimpl
def lightrl_loss_terms() -> list[type[Any]]:
    return [EntropyBonus, PositiveNLL]


@hookimpl
def lightrl_outputs() -> list[type[Any]]:
    return [Entropy]


@hookimpl
def lightrl_references() -> list[type[Any]]:
    return [BaseReference, FrozenReference, MovingAverageReference, PeriodicReference, Teacher]


@hookimpl
def lightrl_corrections() -> list[type[Any]]:
    return [MaskedImportance, TruncatedImportance]


@hookimpl
def lightrl_objectives() -> list[type[Any]]:
    return [ChosenLikelihood]


@hookimpl
def lightrl_engines() -> list[type[Any]]:
    return [ProcessEngine, TransformersEngine]


@hookimpl
def lightrl_environments() -> list[type[Any]]:
    return [SingleTurn]


@hookimpl
def lightrl_prompt_sources() -> list[type[Any]]:
    return [Addition, DatasetPrompts, DigitSorting, EpisodeSeeds, JsonLines, Parquet, Reversal, SortedPairs]


@hookimpl
def lightrl_policies() -> list[type[Any]]:
    return [LoraPolicy, PeftPolicy, PretrainedPolicy, SavedAdapters, TinyPolicy]


@hookimpl
def lightrl_modules() -> list[str]:
    # by their paths, since they import Lightning, which takes seconds and which a list of parts does without
    return [
        "lightrl.training.online.policy_optimization:PolicyOptimization",
        "lightrl.training.offline.preference:PreferenceOptimization",
        "lightrl.training.offline.reward_modeling:RewardModeling",
        "lightrl.training.offline.supervised:SupervisedFineTuning",
    ]


@hookimpl
def lightrl_callbacks() -> list[str]:
    return [
        "lightrl.callbacks.run_start:SizesTable",
        "lightrl.callbacks.run_start:StatedExceptions",
        "lightrl.callbacks.completions_log:CompletionsLog",
        "lightrl.callbacks.alarms:Alarms",
        "lightrl.callbacks.dashboard:Dashboard",
        "lightrl.callbacks.histograms:Histograms",
        "lightrl.callbacks.stop_all_ranks:StopAllRanks",
        "lightrl.callbacks.resume_report:ResumeReport",
        "lightrl.callbacks.run_summary:RunSummary",
        "lightrl.callbacks.export_policy:ExportPolicy",
        "lightrl.callbacks.export_reward_model:ExportRewardModel",
        "lightrl.callbacks.no_update:NoUpdate",
        "lightrl.callbacks.preemption:Preemption",
        "lightrl.callbacks.preemption:PreemptionCheckpoint",
        "lightrl.callbacks.rollout_progress:RolloutProgress",
        "lightrl.callbacks.run_checkpoints:RunCheckpoints",
        "lightrl.callbacks.run_folder:WriteCompletions",
    ]
