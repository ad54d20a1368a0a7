"""Rewards: how good is a completion?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lightrl.parts.base import Part
from lightrl.parts.environment import Runs
from lightrl.prompt import Prompt
from lightrl.ranges import Count, Natural, Positive, Share, Weight, Workers, refuse_outside

if TYPE_CHECKING:
    # worker processes import this module, and most of them have no use for torch
    from torch import Tensor

    from lightrl.types import Rollout, WithStatistics


@dataclass(frozen=True)
class LinearWeight:
    """A factor on a reward's weight that moves along a line: start + (end - start) min(1, seen / rollouts), then stays."""

    start: Weight
    """The factor in the first rollout."""
    end: Weight
    """The factor after `rollouts` rollouts."""
    rollouts: Count
    """Rollouts from `start` to `end`; at least 1."""

    def __post_init__(self) -> None:
        refuse_outside(type(self), vars(self))

    def at(self, seen: int) -> float:
        """The factor after this many rollouts."""
        return self.start + (self.end - self.start) * min(1.0, seen / self.rollouts)


RowScore = float | int | bool | Sequence[float] | None
"""The score of a row: a number for the row, one number per response token, or None to abstain."""


class Reward(Part):
    """Scores completions; subclass `RowReward`, `AsyncReward` or `BatchReward` and hand `**kwargs` on to it."""

    runs: Runs = "inline"
    """Where it runs."""

    def __init__(
        self,
        weight: Weight = 1.0,
        gate: str | None = None,
        gate_above: float = 0.0,
        normalize: Literal["group"] | None = None,
        schedule: LinearWeight | None = None,
        max_error_rate: Share = 0.5,
        error_window: Count = 256,
    ) -> None:
        """
        Args:
            weight: the factor in the sum of rewards; 0 scores and logs without training on it.
            gate: name of another reward: where that one's raw score is not above `gate_above`, this one is not asked and scores 0.
                Where that one abstained or failed, so does this one.
            gate_above: what the gate's score must exceed.
            normalize: `group`: (score - mean) / std over the scorable rows of the group, before the weight; 0 where all are equal.
            schedule: a factor on the weight that moves with the rollouts; evaluations have its end, so that the best checkpoint is the
                best by constant weights.
            max_error_rate: failures among the last `error_window` completions, as a share of `error_window`, above which training
                stops; in [0, 1]; 1: never.
            error_window: how many completions the error rate looks back on; at least 1.

        Raises:
            ValueError: an argument outside its range.
        """
        self.weight, self.gate, self.gate_above, self.normalize = weight, gate, gate_above, normalize
        self.schedule, self.max_error_rate, self.error_window = schedule, max_error_rate, error_window

    def check(self, columns: Set[str]) -> None:
        """Refuse, with a ValueError, settings and prompts with these columns that cannot work; called once before training."""

    def counts(self) -> dict[str, float]:
        """Numbers of its own since it was last asked, logged as `rewards/{name}/{number}` and added up over a rollout and all ranks.

        Asked in the training process after each batch of rows, so of no use to rewards that run in workers.
        """
        return {}


class RowReward(Reward):
    """Scores one completion at a time, in worker processes unless the class says otherwise.

    A worker is killed when a completion takes too long, and others go on. Each worker has its own copy of the reward, so a
    score must not depend on what earlier calls left behind. A class whose `score` is quick, always returns and
    never crashes sets `runs = "inline"` and is called in the training process, where nothing can stop it.
    """

    runs: Runs = "process"
    version: str = "1"
    """Part of the cache's key: change it when the same completion scores something else than before."""
    accepts: dict[str, bool] | None
    """Arguments that `score` takes by name, each with whether it must be given, None for any; set where arguments of the reward name
    columns, so that the signature cannot."""

    def __init__(
        self,
        weight: Weight = 1.0,
        runs: Literal["inline", "process"] | None = None,
        timeout_s: Positive | None = None,
        workers: Workers | None = None,
        memory_mb: Natural | None = None,
        cache: Natural = 0,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            weight: the factor in the sum of rewards; 0 scores and logs without training on it.
            runs: `inline` calls it in the training process, `process` in workers that can be killed; null: as the class says.
            timeout_s: wall-clock seconds for one completion, after which its worker is killed and the row fails; null: 10.
            workers: processes that score at the same time; null: 2.
            memory_mb: megabytes that a worker may take beyond what it has at its start; null: 4096; 0: no limit.
            cache: scores that are remembered, the least recently used forgotten first; 0: none.
            **kwargs: the arguments of `Reward`.

        Raises:
            ValueError: an argument outside its range, or a limit for a reward that nothing limits.
        """
        super().__init__(weight, **kwargs)
        name = type(self).__name__
        if runs is not None:
            if self.runs == "async":
                raise ValueError(f"{name} runs {self.runs}; runs={runs!r} is not possible, only inline and process replace each other")
            self.runs = runs
        given = {"timeout_s": timeout_s, "workers": workers, "memory_mb": memory_mb}
        limits = {key: value for key, value in given.items() if value is not None}
        useless = [key for key in limits if self.runs == "inline" or (self.runs == "async" and key != "timeout_s")]
        if useless:
            raise ValueError(f"{name} runs {self.runs}, where {', '.join(useless)} would limit nothing: leave it out, or set runs: process")
        self.timeout_s = 10.0 if timeout_s is None else timeout_s
        self.workers = 2 if workers is None else workers
        self.memory_mb = 4096 if memory_mb is None else memory_mb
        self.cache = cache

    @abstractmethod
    def score(self, prompt: Prompt, completion: str, **columns: Any) -> RowScore | Awaitable[RowScore]:
        """How good this completion is.

        Args:
            prompt: what was asked.
            completion: the decoded response, without the closing special token.
            **columns: the prompt's `answer` and its other columns, those that the signature names.

        Returns:
            A finite number, a list with one per response token, or None to abstain. Infinity fails the row; another type ends the run.
        """

    def check_prompt(self, prompt: Prompt) -> None:
        """Refuse a prompt that this reward can never score, such as one whose answer it cannot read.

        Asked about every prompt of a run's data before the run, so it is to be quick; a reward behind a gate is not asked.

        Raises:
            ValueError: the message says what it cannot read, and what it expects.
        """

    def answer_in(self, completion: str) -> str | None:
        """The answer that a completion gives, written so that equal answers are equal texts; None: it gives none.

        Evaluations count these as votes (`maj@n`), in the training process: it is to be quick and never to hang. A reward that does
        not define it has no such votes.
        """
        return None


class BatchReward(Reward):
    """Scores a whole rollout at once, for example with a model, in the training process."""

    def start(self) -> None:
        """Get ready, for example load a model; called before each `score`, so it returns at once where nothing is left to do.

        What it raises ends the run, while what `score` raises makes rows fail.
        """

    def close(self) -> None:
        """Give back what `start` took; a later `start` takes it again."""

    @abstractmethod
    def score(self, rollout: Rollout) -> Tensor | WithStatistics:
        """`[N]`, or `[N, L]` with NaN where no step ends; float32. NaN in `[N]` means failed.

        The rollout is a copy of the reward's own: what is written into it is not trained on.
        Statistics that come with it are reduced over rows and ranks, and logged as `rewards/{name}/...`.
        """

    def observe(self, statistics: Mapping[str, float]) -> None:
        """Told after each rollout, on every rank the same: what the statistics of `score` came to over all its rows and ranks.

        They have the names that `score` gave, beside those that the core reports of every reward. Evaluations are not told of. What is
        learnt from a rollout so, and not in `score`, depends neither on the order of rows nor on how they are cut and shared out.
        """


class AsyncReward(RowReward):
    """Scores one completion at a time by waiting for an answer; many wait at once, in one event loop.

    Calls that raise one of `transient` are repeated after random pauses that grow exponentially, longer by the exception's `retry_after`
    (seconds) if it has one. A call that takes too long is cancelled; one that then goes on is left to itself, and what it returns is late.
    """

    runs: Runs = "async"
    transient: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
    """Exceptions that may not happen the next time."""

    def __init__(
        self,
        weight: Weight = 1.0,
        timeout_s: Positive = 60.0,
        concurrency: Count = 16,
        retries: Natural = 3,
        requests_per_minute: Positive | None = None,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            weight: the factor in the sum of rewards; 0 scores and logs without training on it.
            timeout_s: wall-clock seconds for one call, after which it is cancelled; the next attempt has as many.
            concurrency: calls under way at the same time; at least 1.
            retries: further attempts after a transient error; at least 0.
            requests_per_minute: requests per minute, those of further attempts included; a call sends as many as `requests` says. null: no
                limit.
            **kwargs: the arguments of `Reward`, and `cache`.

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(weight, timeout_s=timeout_s, **kwargs)
        self.concurrency, self.retries, self.requests_per_minute = concurrency, retries, requests_per_minute

    @abstractmethod
    async def score(self, prompt: Prompt, completion: str, **columns: Any) -> RowScore:
        """As `RowReward.score`, awaited. It must not block the loop: no `time.sleep`, no synchronous client."""

    def requests(self, prompt: Prompt, completion: str, **columns: object) -> int:
        """How many requests `score` sends for these arguments, for `requests_per_minute`: one."""
        return 1

    async def close(self) -> None:
        """Give back what `score` opened; awaited once in the loop that `score` ran in."""
