"""The nouns: prompts, rollouts, experience and training batches, with their fields.

Letters: B prompts, G completions each, N = B*G rows, L = padded length of prompt + response, n = rows of a micro-batch.
Every per-token tensor is `[N, L]` and entry t belongs to token t. Rows start at position 0 and are padded on the right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from lightrl.prompt import JSON, Episode, Message, Prompt, Turn
from lightrl.ranks import ALONE, Ranks
from lightrl.readings import ReadRows, read_after, turns_of
from lightrl.rows import Rows, Sequences, on_last_token, onto
from lightrl.statistic import Outcome, Statistic, Statistics, WithStatistics

__all__ = [
    "JSON", "Denominators", "Episode", "Experience", "Message", "Outcome", "PolicyOutput", "Prompt", "Rollout", "ScoredRollout",
    "Statistic", "Statistics", "TrainingBatch", "Turn", "WithStatistics",
]  # fmt: skip


@dataclass(kw_only=True)
class Rollout(Rows):
    """Prompts and the completions that the policy sampled for them."""

    prompts: list[Prompt]
    """N prompts, one per row; rows of one group share theirs."""
    completions: list[str]
    """N decoded responses, without the closing special token."""
    input_ids: Tensor
    """`[N, L]` int64, prompt and response; any id where `attention_mask` is False."""
    attention_mask: Tensor
    """`[N, L]` bool, a prefix of each row: the positions that hold a token."""
    response_mask: Tensor
    """`[N, L]` bool: the policy sampled this token (EOS included). May have gaps where a tool or an environment wrote."""
    rollout_logprobs: Tensor
    """`[N, L]` f32: log-softmax(logits / temperature) over the whole vocabulary at the sampled token, 0 elsewhere."""
    group: Tensor
    """`[N]` int64: rows with the same number answer the same draw of a prompt."""
    finish_reason: list[str]
    """N reasons: `stop` (the policy ended its only turn, or the environment the episode), `length` (cut at a token limit), `turns` (at the
    limit of turns) or `failed` (the environment has failed, so that the row is not scorable)."""
    policy_version: Tensor
    """`[N]` int64: the number of optimizer steps behind the weights that sampled the row."""
    temperature: float
    """The temperature that the logits were divided by; 0 < temperature."""
    seeds: Tensor | None = None
    """`[N]` int64: of the random numbers of each row, different for equal rows; None of rows that no loop has made. Read
    by `token_uniforms`."""
    episodes: list[Episode] = field(default_factory=list)
    """N records of conversations, turns and environments; or none, of rows that no loop has made."""
    extras: dict[str, Tensor] = field(default_factory=dict)
    """`[N]`, `[N, L]` or `[N, L, ...]` each, by name: what engine and parts know of a row or a token, for the parts after them. Read
    one with `extra`."""
    contexts: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    """By the slot of a reference that reads other prompts than the policy, N of them in token ids; an empty one: the policy's."""

    def __len__(self) -> int:
        return len(self.prompts)

    def extra(self, name: str) -> Tensor:
        """The extra that a part has left under a name.

        Args:
            name: such as `old_entropy`, for a part with `Entropy()` among its `old_outputs`.

        Raises:
            RuntimeError: nobody left it.
        """
        if name not in self.extras:
            raise RuntimeError(f"there is no extra {name!r} here, but {', '.join(self.extras) or 'none'}: no part has left it")
        return self.extras[name]

    def episode(self, row: int) -> Episode:
        """The record of a row; of rows that no loop has made, the prompt and its completion."""
        if self.episodes:
            return self.episodes[row]
        prompt = self.prompts[row]
        asked = ({"role": "user", "content": prompt.text},) if prompt.text is not None else (prompt.messages or ())
        return Episode((*asked, {"role": "assistant", "content": self.completions[row]}), turns=1, own=(len(asked),))

    def turns(self, row: int) -> list[Turn]:
        """The policy's turns in a row, in their order: what it read and said in each, with positions, texts and rewards.

        Only positions are known of a row that has another number of turns than its record, as where others said nothing between two.
        """
        return turns_of(self.response_mask[row], self.episode(row))

    def as_read(self, slot: str | None = None) -> ReadRows:
        """The sequences in which the policy has read the rows, on the CPU; or those in which the reference in a slot reads them."""
        host = self.host
        if slot not in host.contexts:
            return ReadRows(host.input_ids, host.lengths, [episode.readings for episode in host.episodes])
        first = host.response_mask.int().argmax(1)
        return ReadRows(host.input_ids, host.lengths, read_after(host.contexts[slot], first, host.lengths))

    def informed(self, slot: str) -> Tensor:
        """`[N]` bool: the reference in a slot reads another prompt of the row than the policy; True for all where it never does."""
        contexts = self.contexts.get(slot)
        known = [True] * len(self) if contexts is None else [bool(context) for context in contexts]
        return onto(torch.tensor(known, dtype=torch.bool), self.group.device)

    def first_sampled(self, values: Tensor) -> Tensor:
        """`[N]`: of numbers `[N, L]` that of the first token that the policy sampled; any one of a row without such a token."""
        return values.gather(1, self.response_mask.int().argmax(1, keepdim=True))[:, 0]

    def sequences(self) -> Sequences:
        """One for each row, or for each turn where turns are read after contexts of their own."""
        return self.as_read().sequences

    def places(self) -> Tensor:
        """`[N]`: tokens of each row, however they are read."""
        return self.host.lengths

    @property
    def lengths(self) -> Tensor:
        """`[N]` int64: tokens of prompt and response."""
        return self.attention_mask.sum(1)

    @property
    def response_lengths(self) -> Tensor:
        """`[N]` int64: tokens that the policy sampled."""
        return self.response_mask.sum(1)

    @property
    def truncated(self) -> Tensor:
        """`[N]` bool: cut at the token limit, as the engine says (never read from token values)."""
        return torch.tensor([r == "length" for r in self.finish_reason], dtype=torch.bool, device=self.group.device)

    @classmethod
    def concat_groups(cls, batches: Sequence[Self]) -> Self:
        """As `concat`, with the groups of each batch numbered on from those of the batches before it."""
        first, numbered = 0, []
        for batch in batches:
            group = batch.group + first
            first = int(group.max()) + 1 if len(batch) else first
            numbered.append(replace(batch, group=group))
        return cls.concat(numbered)


@dataclass(kw_only=True)
class ScoredRollout(Rollout):
    """A rollout with the answers of its rewards."""

    reward_parts: dict[str, Tensor]
    """Per reward `[N]` or `[N, L]` f32, raw (unweighted). NaN: no score (`[N]`) or no step ends here (`[N, L]`); 0 is a score of zero."""
    outcomes: dict[str, Tensor]
    """Per reward `[N]` int64: an `Outcome`."""
    scorable: Tensor
    """`[N]` bool: no reward with a weight failed, and at least one answered where one is needed; other rows leave statistics and loss."""
    row_weight: Tensor | None = None
    """`[N]` f32, at least 0: how much the sampler lets a row count in the loss; None: 1 each."""

    @classmethod
    def concat(cls, batches: Sequence[Self]) -> Self:
        """As `Rows.concat`; a reward that scored tokens in one batch and rows in another becomes `[N, L]` in both."""
        per_token = {name for batch in batches for name, part in batch.reward_parts.items() if part.dim() == 2}
        return super().concat([batch._widened(per_token) for batch in batches])

    def to_state(self) -> dict[str, Any]:
        """Every field by name, for a checkpoint: prompts and episodes as JSON values, and tensors on the CPU."""
        state = {f.name: getattr(self.to("cpu"), f.name) for f in fields(self)}
        prompts, episodes = [prompt.to_json() for prompt in self.prompts], [episode.to_json() for episode in self.episodes]
        return state | {"prompts": prompts, "episodes": episodes}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The inverse of `to_state`."""
        prompts, episodes = map(Prompt.from_json, state["prompts"]), map(Episode.from_json, state["episodes"])
        return cls(**{**state, "prompts": list(prompts), "episodes": list(episodes)})

    def _widened(self, per_token: set[str]) -> Self:
        rows = {name: part for name, part in self.reward_parts.items() if name in per_token and part.dim() == 1}
        if not rows:
            return self
        wide = {name: on_last_token(part, self.response_mask) for name, part in rows.items()}
        return replace(self, reward_parts=self.reward_parts | wide)


class WithNeeds:
    """Something with tensors that are there only if a part needs them."""

    def needed(self, name: str) -> Tensor:
        """The tensor of this name, for a part that has the name among its `needs`.

        Args:
            name: of the field, such as `values`.

        Raises:
            RuntimeError: it is not there, because no part says that it needs it.
        """
        value: Tensor | None = {**self.further(), **vars(self)}.get(name)
        if value is None:
            raise RuntimeError(f"there are no {name} here: a part that reads them has {name!r} among its needs")
        return value

    def further(self) -> Mapping[str, Tensor]:
        """The tensors that have a name and no field of their own."""
        return {}


@dataclass(kw_only=True)
class Experience(ScoredRollout, WithNeeds):
    """A scored rollout with rewards on tokens, token weights and log-probs: all that advantages are computed from."""

    token_rewards: Tensor
    """`[N, L]` f32: weighted rewards on the tokens that earned them, the outcome on the last response token, KL if it goes there.
    Other positions may hold anything. Returns over them are in `DiscountedReturn.returns`."""
    step_ends: Tensor = field(metadata={"pad": False})
    """`[N, L]` bool: a reward was given at this token (0 included): the ends of the steps of process supervision."""
    rewards: Tensor
    """`[N]` f32: row sums of `token_rewards`; of a row without response tokens its score, which no token holds and no shaping sees."""
    token_weight: Tensor
    """`[N, L]` f32: how much the token counts in the loss; 0 = no loss. Zero outside `response_mask` and on rows not scorable."""
    old_logprobs: Tensor
    """`[N, L]` f32: log-probs under the policy before the first optimizer step of this rollout."""
    ref_logprobs: Tensor | None = None
    """`[N, L]` f32 under the reference policy, if a part needs it: read it as `experience.needed("ref_logprobs")`."""
    further_logprobs: dict[str, Tensor] = field(default_factory=dict)
    """`[N, L]` f32 each, under the other references that parts need, by their words: read it as `experience.needed("teacher_logprobs")`."""
    ranks: Ranks = ALONE
    """The ranks that share the rollout, for advantages, whose sums over all rows go through them."""
    values: Tensor | None = None
    """`[N, L]` f32: the return expected before token t was emitted, if a part needs it: read it as `experience.needed("values")`."""

    def further(self) -> Mapping[str, Tensor]:
        """See `WithNeeds.further`."""
        return self.further_logprobs


@dataclass(kw_only=True)
class TrainingBatch(Experience):
    """An experience with its advantages: rows that the loss is computed from."""

    advantages: Tensor
    """`[N, L]` f32: how much better than expected."""
    returns: Tensor | None = None
    """`[N, L]` f32: the critic is fitted to them; there if a part needs values."""


@dataclass
class PolicyOutput(WithNeeds):
    """Log-probs, outputs of the policy and values of a micro-batch of n rows."""

    logprobs: Tensor
    """`[n, L]` of the given tokens at the rollout's temperature; 0 outside the response; carries the gradient."""
    outputs: dict[str, Tensor] = field(default_factory=dict)
    """`[n, L]` each, by the names of the outputs that parts read, with gradient; 0 outside the response. Those of a `TrunkOutput` are
    `[n, L, ...]`, prompts included. Read one as `output.needed("entropy")`."""
    values: Tensor | None = None
    """`[n, L]` from the critic, if a part needs it."""

    def needed(self, name: str) -> Tensor:
        """The values, or an output of the policy, for a part that says that it needs them.

        Args:
            name: `values`, or of an output among the part's `outputs`, such as `entropy`.

        Raises:
            RuntimeError: it is not there, because no part says that it needs it.
        """
        if name == "values":
            return super().needed(name)
        if name not in self.outputs:
            raise RuntimeError(
                f"there is no output {name!r} of the policy here, but {', '.join(self.outputs) or 'none'}: a part that reads one has it "
                "among its outputs"
            )
        return self.outputs[name]


@dataclass(frozen=True)
class Denominators:
    """The denominators of one loss term, counted once per optimizer step over all ranks."""

    tokens: float
    """Sum of the token weights."""
    rows: float
    """Rows with at least one token of non-zero weight."""
    all_rows: float
    """All rows, fully masked ones included."""
    prompts: float
    """Groups with at least one such row."""
