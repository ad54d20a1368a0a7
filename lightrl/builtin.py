"""The parts of the core, registered by the same hooks as the parts of every plugin."""

from __future__ import annotations

from typing import Any

from lightrl.data.files import DatasetPrompts, JsonLines, Parquet
from lightrl.data.tasks import Addition, DigitSorting, EpisodeSeeds, Reversal, SortedPairs
from lightrl.hookspecs import hookimpl
from lightrl.parts.advantage import GAE, DiscountedReturn, GroupCentered, GroupNormalized, LeaveOneOut, NoAdvantage
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

REGISTERED: dict[str, list[Any]] = {
    "lightrl_samplers": [GroupSampler],
    "lightrl_rewards": [ExactMatch, Function],
    "lightrl_advantages": [
        GAE,
        DiscountedReturn,
        GroupCentered,
        GroupNormalized,
        LeaveOneOut,
        NoAdvantage,
        TurnGAE,
        TurnNormalized,
        TurnReturn,
    ],
    "lightrl_ratios": [SequenceRatio, TokenRatio],
    "lightrl_clip_schemes": [DecoupledClip, NoClip, PolicyGradient, SymmetricClip],
    "lightrl_shapings": [OutcomeShaping],
    "lightrl_kls": [KLPenalty],
    "lightrl_kl_controllers": [AdaptiveKL],
    "lightrl_aggregations": [ConstantLength, SequenceMean, SequenceSum, SequenceSumTokenMean, TokenMean],
    "lightrl_token_weights": [MaskTruncated],
    "lightrl_critics": [ValueHead, ValueModel],
    "lightrl_loss_terms": [EntropyBonus, PositiveNLL],
    "lightrl_outputs": [Entropy],
    "lightrl_references": [BaseReference, FrozenReference, MovingAverageReference, PeriodicReference, Teacher],
    "lightrl_corrections": [MaskedImportance, TruncatedImportance],
    "lightrl_objectives": [ChosenLikelihood],
    "lightrl_engines": [ProcessEngine, TransformersEngine],
    "lightrl_environments": [SingleTurn],
    "lightrl_prompt_sources": [Addition, DatasetPrompts, DigitSorting, EpisodeSeeds, JsonLines, Parquet, Reversal, SortedPairs],
    "lightrl_policies": [LoraPolicy, PeftPolicy, PretrainedPolicy, SavedAdapters, TinyPolicy],
    # by their paths, since they import Lightning, which takes seconds and which a list of parts does without
    "lightrl_modules": [
        "lightrl.training.online.policy_optimization:PolicyOptimization",
        "lightrl.training.offline.preference:PreferenceOptimization",
        "lightrl.training.offline.reward_modeling:RewardModeling",
        "lightrl.training.offline.supervised:SupervisedFineTuning",
    ],
    "lightrl_callbacks": [
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
        "lightrl.callbacks.export_policy:ExportRewardModel",
        "lightrl.callbacks.no_update:NoUpdate",
        "lightrl.callbacks.preemption:Preemption",
        "lightrl.callbacks.preemption:PreemptionCheckpoint",
        "lightrl.callbacks.rollout_progress:RolloutProgress",
        "lightrl.callbacks.run_checkpoints:RunCheckpoints",
        "lightrl.callbacks.run_folder:WriteCompletions",
    ],
}
"""What each hook returns."""


globals().update({name: hookimpl(lambda name=name: REGISTERED[name]) for name in REGISTERED})
