"""Rollout engines: who generates the completions?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar

from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor, dtype

from lightrl.parts.base import Part, TrunkOutput
from lightrl.ranges import Count, Natural, Temperature, refuse_outside
from lightrl.types import Prompt

T = TypeVar("T")


class SampledPolicy(Protocol):
    """The members of a policy that an engine in the trainer's process uses; `lightrl.Policy` has them."""

    model: Any
    """A causal LM as transformers has them."""
    tokenizer: Any
    """Its tokenizer."""
    eos_token_ids: frozenset[int]
    """Each of these ends a completion."""

    @property
    def max_positions(self) -> int | None:
        """Longest row the model takes, in tokens; None if it does not say."""

    def encode(self, prompt: Prompt) -> list[int]:
        """Token ids of a prompt, at least one."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, special tokens left out, but for the marks of thoughts."""


class PolicyWeights(Protocol):
    """The weights of the policy as they are now, for one call of `RolloutEngine.update_weights`."""

    @property
    def policy(self) -> SampledPolicy:
        """The trainer's own modules. An engine that decodes with them says so (`in_process`), and they are whole while it decodes."""

    @property
    def compute_dtype(self) -> dtype:
        """The dtype that the trainer's layers compute in, which may be another one than that of the weights."""

    def whole(self) -> AbstractContextManager[None]:
        """Within, the trainer's own modules have gathered weights on this rank; the core enters it while an `in_process` engine decodes."""

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor by its Hugging Face name, a tied one once, gathered one at a time; to be copied at once.

        Adapters are added to the weights. Collective: every rank goes through all of them.
        """

    def own_tensors(self, trained: bool) -> Iterator[tuple[str, Tensor]]:
        """Tensors by their names in the trainer's own modules, all or the trained ones and buffers; adapters stand beside their weights."""

    def save(self, folder: Path) -> None:
        """Write a Hugging Face folder with weights, config and tokenizer. Adapters are added to the weights.

        Collective: the first rank writes, and every rank returns once it has.
        """

    def save_adapters(self, folder: Path) -> None:
        """Write the adapters alone, as PEFT takes them; collective as `save`, and a ValueError if the policy has none."""

    def on_first_rank(self, action: Callable[[], T]) -> T:
        """The JSON value of an action that the first rank takes alone. Every rank waits for it, and gets its error too."""

    def logprobs(self, context: Sequence[int], tokens: Sequence[int], temperature: float) -> list[float]:
        """The trainer's own log-probs of tokens behind a context, of logits by a temperature above 0; collective, the same on all ranks."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn from the policy's distribution."""

    max_new_tokens: Count = 256
    """Limit on the tokens of a completion, EOS included; what hits it has the finish reason `length`."""
    temperature: Temperature = 1.0
    """Divides the logits; 0 takes the likeliest token (for evaluation only)."""
    top_p: Annotated[float, Gt(0), Le(1)] = 1.0
    """Keep the likeliest tokens whose probabilities add up to this; in (0, 1]."""
    top_k: Natural = 0
    """Keep this many of the likeliest tokens; 0 keeps all."""
    min_p: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Keep tokens at least this likely relative to the likeliest; in [0, 1)."""
    stop: tuple[str, ...] = ()
    """A completion ends as soon as its text contains one of these; the text stays part of it."""

    def __post_init__(self) -> None:
        refuse_outside(type(self), vars(self))
        if isinstance(self.stop, str) or "" in self.stop:
            raise ValueError(f"sampling needs stop as a sequence of texts that are not empty, got {self}")


@dataclass(frozen=True)
class Request:
    """A context that is to be continued."""

    id: int
    """Names the request in its result; no other request under way has it."""
    context: Sequence[int]
    """Token ids, at least one. Requests of one group share the list, so that it need be read only once."""
    limit: int
    """The most tokens to be sampled, EOS included; at least 1. It counts instead of `sampling.max_new_tokens`."""
    sampling: Sampling
    """How tokens are drawn."""
    ends: frozenset[int]
    """Each of these ids ends the completion and belongs to it."""
    seed: int
    """Key of its random numbers, an int64: the same request with the same key gets the same tokens, whatever else is asked."""
    episode: int
    """Names the episode: the context of its next request begins with this context and what was sampled for it."""
    open: bool = False
    """Another request of the episode may follow, so that keys and values are worth keeping."""


@dataclass(frozen=True)
class Result:
    """The continuation of a context."""

    id: int
    """Of the request."""
    tokens: list[int]
    """The sampled ids, the closing one included; at least one."""
    logprobs: list[float]
    """Per token: log-softmax(logits / temperature) over the whole vocabulary, at temperature 1 where tokens are the likeliest ones."""
    finish_reason: Literal["stop", "length"]
    """Ended by one of `ends` or a stop string, or cut at the limit."""
    versions: tuple[tuple[int, int], ...]
    """Which weights sampled which tokens: pairs of a version and a number of tokens, in order; the numbers add up to all tokens."""
    read: int
    """Tokens of the context that were read for it: what is kept of an episode, or was read for another request too, is not counted."""
    recorded: Mapping[str, Tensor] = field(default_factory=dict)
    """`[tokens, ...]` each, on the CPU: the outputs that the engine was told to record, at each sampled token, by name."""


class RolloutEngine(Part):
    """Continues contexts with the policy's weights; it knows tokens, and nothing of texts, groups, rewards or turns.

    The core calls `start`, `update_weights`, `submit`, `results` and `rest`, and at the end `close`.
    """

    sampling: Sampling
    """How training rollouts are drawn."""
    seed: int = 0
    """Of the random numbers of all requests; the core has mixed it into the key of each."""
    exact_logprobs: bool = False
    """Log-probs of results are those of the trainer's own forward: they may serve as old log-probs."""
    logprob_tolerance: float | None = None
    """Mean absolute difference, in nats, between its log-probs and the trainer's that rounding explains; None: that of the dtype that the
    trainer computes in. After every update of an engine that is not `in_process`, the run stops beyond it."""
    comparable_logprobs: bool = True
    """Log-probs of results differ from the trainer's by rounding alone. Where they mean something else, the trainer computes its own in
    their place, and no correction may be set."""
    probed_at: float = 1.25
    """The temperature at which log-probs are compared after an update where training samples at 1, so that it is tried too; an engine
    whose log-probs are comparable at 1 alone says 1."""
    in_process: bool = False
    """It decodes with the trainer's own modules, whose weights are whole from the first request of a batch to its last result."""
    records: bool = False
    """It records outputs from inside the trunk while it samples."""
    recorded: tuple[TrunkOutput, ...] = ()
    """Those that it is to record; set before the first request."""
    rests: bool = False
    """It gives memory back in `rest`, so that no rollout can be made while the policy learns, nor by workers."""
    slice_rows: int | None = None
    """Most requests that share batches; None: all of a call. Whoever hosts several such engines hands out a slice at a time."""

    def start(self) -> None:
        """Get ready: start processes, connect. Called before anything else, and again after `close`; nothing is started by `__init__`."""

    def close(self) -> None:
        """End everything that was started, also after a failure; nothing if nothing was."""

    @abstractmethod
    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        """Take the policy's present weights; called whenever they may have changed and no request is under way.

        Args:
            weights: to be read within this call, but for the trainer's own modules.
            version: optimizer steps behind them, to be named by results.
        """

    @abstractmethod
    def submit(self, requests: Sequence[Request]) -> None:
        """Take requests, also while others are under way. Those of one call may share batches."""

    @abstractmethod
    def results(self) -> list[Result]:
        """The results that came next: waits for at least one; none if no request is under way.

        Raises:
            RuntimeError: the engine cannot go on, or nothing came within its time limit.
        """

    def rest(self) -> None:
        """Nothing is asked before the next `update_weights`: memory may be given to the trainer. By default nothing happens."""

    @abstractmethod
    def forget(self, episodes: Collection[int]) -> None:
        """Drop what is kept of episodes that are over, and their requests under way."""

    def statistics(self) -> dict[str, float]:
        """Counts since the last call, by name; every rollout logs their sums over ranks as `engine/{name}`."""
        return {}
