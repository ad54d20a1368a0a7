"""The kinds of things that plugins register, each declared once.

A row of this table is all that the rest of the package needs to know of a kind. Hooks, public names, messages, `lightrl explain`,
`lightrl plugins new`, the contract tests and the docs follow from it; CONTRIBUTING says which files a new kind brings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lightrl.import_path import imported


# no dataclass, since `import lightrl` reads this table and is to stay fast
class Kind(NamedTuple):
    """One kind."""

    title: str
    """The kind in messages, docs and `lightrl plugins new --kind`."""
    hook: str
    """The function of a plugin that returns the classes of this kind."""
    base: str
    """Import path `module:Class` of the abstract class, which is public."""
    question: str
    """The question that every class of the kind answers."""
    places: tuple[str, ...]
    """Keys of a config that name such a class; `NAME` stands for a name of the user's choice. A kind that fills slots of an algorithm
    has a key `model.algorithm.SLOT` for each."""
    derive_from: tuple[str, ...] = ()
    """Public classes that a class of the kind derives from; empty: the abstract class itself."""
    is_part: bool = True
    """Its classes are parts, which other classes have as arguments."""

    @property
    def slug(self) -> str:
        """The title as it is typed: `clip-scheme`."""
        return self.title.lower().replace(" ", "-")

    @property
    def base_name(self) -> str:
        """The name of the abstract class."""
        return self.base.partition(":")[2]

    @property
    def base_is_ours(self) -> bool:
        """The abstract class is one of lightrl's, and public as `lightrl.NAME`."""
        return self.base.startswith("lightrl.")

    @property
    def base_class(self) -> type[Any]:
        """The abstract class, imported."""
        found: type[Any] = imported(self.base.replace(":", "."))
        return found

    @property
    def description(self) -> str:
        """The question, and the classes to derive from: the docstring of the hook."""
        own = [f"lightrl.{name}" for name in self.derive_from or ((self.base_name,) if self.base_is_ours else ())]
        return f"{self.question} Subclasses of {' or '.join(f'`{path}`' for path in own or [self.base.replace(':', '.')])}."


def _kind(title: str, hook: str, base: str, question: str, places: str, derive_from: str = "", is_part: bool = True) -> Kind:
    """A kind whose abstract class is lightrl's."""
    return Kind(title, f"lightrl_{hook}", f"lightrl.{base}", question, tuple(places.split()), tuple(derive_from.split()), is_part)


def _slot(title: str, hook: str, base: str, question: str, *slots: str) -> Kind:
    """A kind of parts of an algorithm."""
    return _kind(title, hook, f"parts.{base}", question, " ".join(f"model.algorithm.{slot}" for slot in slots))


_REFERENCES = "model.algorithm.reference model.algorithm.teacher model.reference"
_SHOWS = "What shows, logs, saves or watches a run?"
KINDS = {
    kind.title: kind
    for kind in (
        _kind("algorithm", "algorithms", "algorithms.algorithm:Algorithm", "How does a policy learn from its rollouts?", "model.algorithm"),
        _slot("sampler", "samplers", "sampler:Sampler", "Which completions does the policy learn from?", "sampler"),
        _kind("reward", "rewards", "parts.reward:Reward", "How good is a completion?", "model.rewards.NAME", "RowReward BatchReward"),
        _slot("advantage", "advantages", "advantage:Advantage", "How much better than expected was a token?", "advantage"),
        _slot("importance ratio", "ratios", "ratio:ImportanceRatio", "How much likelier is a token than under old weights?", "ratio"),
        _slot("clip scheme", "clip_schemes", "clip:ClipScheme", "How far may one update go?", "clip"),
        _slot("reward shaping", "shapings", "shaping:RewardShaping", "How do scores become rewards of tokens?", "shaping"),
        _slot("KL", "kls", "kl:KL", "How is the policy tied to another one?", "kl"),
        _slot("KL controller", "kl_controllers", "kl:KLController", "How does a KL coefficient change between rollouts?", "kl.controller"),
        _slot("aggregation", "aggregations", "aggregation:Aggregation", "How much does each token count in the loss?", "aggregation"),
        _slot("token weight", "token_weights", "token_weight:TokenWeight", "Which rows or tokens carry how much loss?", "token_weight"),
        _slot("critic", "critics", "critic:Critic", "Which return is expected at each token?", "critic"),
        _slot("loss term", "loss_terms", "loss_term:LossTerm", "Which further loss is optimised?", "entropy", "positive_nll", "balance"),
        _slot("output", "outputs", "base:Output", "Which number of the policy's distribution may parts see?", "watched"),
        _kind("reference", "references", "parts.reference:Reference", "Which policy is the anchor or the teacher?", _REFERENCES),
        _slot("rollout correction", "corrections", "correction:RolloutCorrection", "What if engine and trainer disagree?", "correction"),
        _kind(
            "objective",
            "objectives",
            "parts.objective:Objective",
            "How does an offline batch become a loss?",
            "model.objective",
            "PairObjective LabelledObjective",
        ),
        _kind("rollout engine", "engines", "parts.engine:RolloutEngine", "Who generates completions?", "model.engine"),
        _kind(
            "environment",
            "environments",
            "parts.environment:Environment",
            "What answers the policy?",
            "model.environment",
            "Environment AsyncEnvironment",
        ),
        _kind(
            "prompt source",
            "prompt_sources",
            "parts.prompts:PromptSource",
            "Where do prompts come from?",
            "data.train data.validation data.test",
        ),
        _kind("policy", "policies", "policy.source:PolicySource", "Where does the policy come from?", "model.policy"),
        _kind("module", "modules", "training.policy_module:PolicyModule", "How is one step of a run made?", "model", is_part=False),
        Kind("callback", "lightrl_callbacks", "lightning.pytorch:Callback", _SHOWS, ("trainer.callbacks",), is_part=False),
        _kind("command", "commands", "command:Command", "What can be typed after `lightrl`?", "", is_part=False),
    )
}
"""Every kind by its title."""
COMMAND = KINDS["command"]
"""The kind whose classes are looked for without loading the others: see `lightrl.hookspecs.COMMANDS`."""
