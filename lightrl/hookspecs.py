"""The hooks of a plugin: one for each kind of part, each called once when plugins are loaded.

A plugin is a module with functions of these names, decorated with `lightrl.hookimpl`, and one entry point in the group
`lightrl.v1`. Every hook takes no argument and returns a list of classes. A plugin leaves out the hooks that it does not need. The hook of
commands is in a module with an entry point in the group `lightrl.v1.commands`.
"""

from __future__ import annotations

from typing import Any

import pluggy

hookspec = pluggy.HookspecMarker("lightrl")
hookimpl = pluggy.HookimplMarker("lightrl")

GROUP = "lightrl.v1"
"""The entry-point group; its number is the version of this page."""
COMMANDS = f"{GROUP}.commands"
"""The entry-point group of modules with the hook `lightrl_commands`. They are imported for every command that is typed, and the modules of
the other group are not, so what such a module imports is light."""


@hookspec
def lightrl_algorithms() -> list[type[Any]]:
    """How does a policy learn from its rollouts? Subclasses of `lightrl.Algorithm`."""
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
    """How much likelier is a token under the new policy than under the old one? Subclasses of `lightrl.ImportanceRatio`."""
    return []


@hookspec
def lightrl_clip_schemes() -> list[type[Any]]:
    """How far may one update go? Subclasses of `lightrl.ClipScheme`."""
    return []


@hookspec
def lightrl_shapings() -> list[type[Any]]:
    """How do scores become rewards of tokens? Subclasses of `lightrl.RewardShaping`."""
    return []


@hookspec
def lightrl_kls() -> list[type[Any]]:
    """How is the policy tied to another one? Subclasses of `lightrl.KL`."""
    return []


@hookspec
def lightrl_kl_controllers() -> list[type[Any]]:
    """How does the coefficient of a KL change between rollouts? Subclasses of `lightrl.KLController`."""
    return []


@hookspec
def lightrl_aggregations() -> list[type[Any]]:
    """How much does each token count when the loss is summed? Subclasses of `lightrl.Aggregation`."""
    return []


@hookspec
def lightrl_token_weights() -> list[type[Any]]:
    """Which rows or tokens carry how much loss? Subclasses of `lightrl.TokenWeight`."""
    return []


@hookspec
def lightrl_critics() -> list[type[Any]]:
    """Which return is expected at each token? Subclasses of `lightrl.Critic`."""
    return []


@hookspec
def lightrl_loss_terms() -> list[type[Any]]:
    """Which further loss is optimised? Subclasses of `lightrl.LossTerm`."""
    return []


@hookspec
def lightrl_outputs() -> list[type[Any]]:
    """Which number of the policy's distribution may parts see? Subclasses of `lightrl.Output`."""
    return []


@hookspec
def lightrl_references() -> list[type[Any]]:
    """Which policy is the anchor or the teacher? Subclasses of `lightrl.Reference`."""
    return []


@hookspec
def lightrl_corrections() -> list[type[Any]]:
    """How is a disagreement between engine and trainer corrected? Subclasses of `lightrl.RolloutCorrection`."""
    return []


@hookspec
def lightrl_objectives() -> list[type[Any]]:
    """How does an offline batch become a loss? Subclasses of `lightrl.PairObjective` or `lightrl.LabelledObjective`."""
    return []


@hookspec
def lightrl_engines() -> list[type[Any]]:
    """Who generates the completions? Subclasses of `lightrl.RolloutEngine`."""
    return []


@hookspec
def lightrl_environments() -> list[type[Any]]:
    """What answers the policy? Subclasses of `lightrl.Environment` or `lightrl.AsyncEnvironment`."""
    return []


@hookspec
def lightrl_prompt_sources() -> list[type[Any]]:
    """Where do prompts come from? Subclasses of `lightrl.PromptSource`."""
    return []


@hookspec
def lightrl_policies() -> list[type[Any]]:
    """Where does the policy come from? Subclasses of `lightrl.PolicySource`."""
    return []


@hookspec
def lightrl_modules() -> list[type[Any]]:
    """How is one step of a run made? Subclasses of `lightrl.PolicyModule`."""
    return []


@hookspec
def lightrl_callbacks() -> list[type[Any]]:
    """What shows, logs, saves or watches a run? Subclasses of `lightning.pytorch.Callback`."""
    return []


@hookspec
def lightrl_commands() -> list[type[Any]]:
    """What can be typed after `lightrl`? Subclasses of `lightrl.Command`."""
    return []
