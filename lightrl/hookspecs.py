"""What can be extended: one hook per kind, each called once when plugins are loaded.

A plugin is a module with functions of these names, decorated with `lightrl.hookimpl`, and one entry point in the group
`lightrl.v1`. Every hook takes no argument and returns a list of classes; a plugin leaves out the hooks it has no use for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pluggy

hookspec = pluggy.HookspecMarker("lightrl")
hookimpl = pluggy.HookimplMarker("lightrl")

GROUP = "lightrl.v1"
"""The entry-point group; its number is the version of this page."""


@hookspec
def lightrl_algorithms() -> list[type[Any]]:
    """Bundles of parts: subclasses of `lightrl.Algorithm`."""
    return []


@hookspec
def lightrl_samplers() -> list[type[Any]]:
    """Which completions does the policy learn from? Subclasses of `lightrl.Sampler`."""
    return []


@hookspec
def lightrl_rewards() -> list[type[Any]]:
    """How good is a completion? Subclasses of `lightrl.RowReward` or `lightrl.BatchReward`."""
    return []


@hookspec
def lightrl_advantages() -> list[type[Any]]:
    """How much better than expected was a token? Subclasses of `lightrl.Advantage`."""
    return []


@hookspec
def lightrl_ratios() -> list[type[Any]]:
    """New policy against old, at which level? Subclasses of `lightrl.ImportanceRatio`."""
    return []


@hookspec
def lightrl_clip_schemes() -> list[type[Any]]:
    """How far may one update go? Subclasses of `lightrl.ClipScheme`."""
    return []


@hookspec
def lightrl_shapings() -> list[type[Any]]:
    """What becomes of the score before it is compared with anything? Subclasses of `lightrl.RewardShaping`."""
    return []


@hookspec
def lightrl_kls() -> list[type[Any]]:
    """How is the policy tied to another? Subclasses of `lightrl.KL`."""
    return []


@hookspec
def lightrl_kl_controllers() -> list[type[Any]]:
    """How do KL coefficients move between rollouts? Subclasses of `lightrl.KLController`."""
    return []


@hookspec
def lightrl_aggregations() -> list[type[Any]]:
    """What does a token weigh? Subclasses of `lightrl.Aggregation`."""
    return []


@hookspec
def lightrl_token_weights() -> list[type[Any]]:
    """Which rows or tokens carry how much loss? Subclasses of `lightrl.TokenWeight`."""
    return []


@hookspec
def lightrl_critics() -> list[type[Any]]:
    """What was expected? Subclasses of `lightrl.Critic`."""
    return []


@hookspec
def lightrl_loss_terms() -> list[type[Any]]:
    """What else is optimised? Subclasses of `lightrl.LossTerm`."""
    return []


@hookspec
def lightrl_references() -> list[type[Any]]:
    """Which policy is the anchor? Subclasses of `lightrl.Reference`."""
    return []


@hookspec
def lightrl_corrections() -> list[type[Any]]:
    """What if sampler and trainer disagree? Subclasses of `lightrl.RolloutCorrection`."""
    return []


@hookspec
def lightrl_objectives() -> list[type[Any]]:
    """What does an offline batch teach? Subclasses of `lightrl.PairObjective` or `lightrl.LabelledObjective`."""
    return []


@hookspec
def lightrl_engines() -> list[type[Any]]:
    """Who generates? Subclasses of `lightrl.RolloutEngine`."""
    return []


@hookspec
def lightrl_prompt_sources() -> list[type[Any]]:
    """Where do prompts come from? Subclasses of `lightrl.PromptSource`."""
    return []


@hookspec
def lightrl_policies() -> list[type[Any]]:
    """Where does the policy come from? Subclasses of `lightrl.PolicySource`."""
    return []


@dataclass(frozen=True)
class Kind:
    """One kind of thing that plugins register."""

    title: str
    """What a message calls it."""
    hook: str
    """The hook that returns its classes."""
    base: str
    """Import path `module:Class` of the abstract class."""


KINDS = {
    kind.title: kind
    for kind in (
        Kind("algorithm", "lightrl_algorithms", "lightrl.algorithms.algorithm:Algorithm"),
        Kind("sampler", "lightrl_samplers", "lightrl.parts.sampler:Sampler"),
        Kind("reward", "lightrl_rewards", "lightrl.parts.reward:Reward"),
        Kind("advantage", "lightrl_advantages", "lightrl.parts.advantage:Advantage"),
        Kind("importance ratio", "lightrl_ratios", "lightrl.parts.ratio:ImportanceRatio"),
        Kind("clip scheme", "lightrl_clip_schemes", "lightrl.parts.clip:ClipScheme"),
        Kind("reward shaping", "lightrl_shapings", "lightrl.parts.shaping:RewardShaping"),
        Kind("KL", "lightrl_kls", "lightrl.parts.kl:KL"),
        Kind("KL controller", "lightrl_kl_controllers", "lightrl.parts.kl:KLController"),
        Kind("aggregation", "lightrl_aggregations", "lightrl.parts.aggregation:Aggregation"),
        Kind("token weight", "lightrl_token_weights", "lightrl.parts.token_weight:TokenWeight"),
        Kind("critic", "lightrl_critics", "lightrl.parts.critic:Critic"),
        Kind("loss term", "lightrl_loss_terms", "lightrl.parts.loss_term:LossTerm"),
        Kind("reference", "lightrl_references", "lightrl.parts.reference:Reference"),
        Kind("rollout correction", "lightrl_corrections", "lightrl.parts.correction:RolloutCorrection"),
        Kind("objective", "lightrl_objectives", "lightrl.parts.objective:Objective"),
        Kind("rollout engine", "lightrl_engines", "lightrl.parts.engine:RolloutEngine"),
        Kind("prompt source", "lightrl_prompt_sources", "lightrl.parts.prompts:PromptSource"),
        Kind("policy", "lightrl_policies", "lightrl.policy.source:PolicySource"),
    )
}
"""Every kind by its title; `lightrl plugins new --kind` and the error messages use these titles."""
