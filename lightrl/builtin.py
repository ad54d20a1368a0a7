"""The parts of the core, registered by the same hooks as the parts of every plugin; by their paths, so that a list of them imports none."""

from __future__ import annotations

from lightrl import MODULE_OF
from lightrl.hookspecs import hookimpl

REGISTERED = {
    "lightrl_samplers": "GroupSampler",
    "lightrl_rewards": "ExactMatch Function",
    "lightrl_advantages": ("GAE DiscountedReturn GroupCentered GroupNormalized LeaveOneOut NoAdvantage TurnGAE TurnNormalized TurnReturn"),
    "lightrl_ratios": "SequenceRatio TokenRatio",
    "lightrl_clip_schemes": "DecoupledClip NoClip PolicyGradient SymmetricClip",
    "lightrl_shapings": "OutcomeShaping",
    "lightrl_kls": "KLPenalty",
    "lightrl_kl_controllers": "AdaptiveKL",
    "lightrl_aggregations": "ConstantLength SequenceMean SequenceSum SequenceSumTokenMean TokenMean",
    "lightrl_token_weights": "MaskTruncated",
    "lightrl_critics": "ValueHead ValueModel",
    "lightrl_loss_terms": "EntropyBonus PositiveNLL",
    "lightrl_outputs": "Entropy",
    "lightrl_references": "BaseReference FrozenReference MovingAverageReference PeriodicReference Teacher",
    "lightrl_corrections": "MaskedImportance TruncatedImportance",
    "lightrl_objectives": "ChosenLikelihood",
    "lightrl_engines": "ProcessEngine TransformersEngine",
    "lightrl_environments": "SingleTurn",
    "lightrl_prompt_sources": "Addition DatasetPrompts DigitSorting EpisodeSeeds JsonLines Parquet Reversal SortedPairs",
    "lightrl_policies": "LoraPolicy PeftPolicy PretrainedPolicy SavedAdapters TinyPolicy",
    "lightrl_modules": "PolicyOptimization PreferenceOptimization RewardModeling SupervisedFineTuning",
}
"""The public classes that each hook returns."""
CALLBACKS = {
    "run_start": "SizesTable StatedExceptions",
    "completions_log": "CompletionsLog",
    "alarms": "Alarms",
    "dashboard": "Dashboard",
    "histograms": "Histograms",
    "stop_all_ranks": "StopAllRanks",
    "resume_report": "ResumeReport",
    "run_summary": "RunSummary",
    "export_policy": "ExportPolicy ExportRewardModel",
    "no_update": "NoUpdate",
    "preemption": "Preemption PreemptionCheckpoint",
    "rollout_progress": "RolloutProgress",
    "run_checkpoints": "RunCheckpoints",
    "run_folder": "WriteCompletions",
}
"""Callbacks, by their files."""


@hookimpl
def lightrl_callbacks() -> list[str]:
    return [f"lightrl.callbacks.{file}:{name}" for file, names in CALLBACKS.items() for name in names.split()]


PATHS = {hook: [f"{MODULE_OF[name]}:{name}" for name in names.split()] for hook, names in REGISTERED.items()}
globals().update({hook: hookimpl(lambda paths=paths: paths) for hook, paths in PATHS.items()})
