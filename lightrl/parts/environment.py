"""Environments: what answers the policy?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from lightrl.parts.base import Part
from lightrl.prompt import JSON, Message, Prompt
from lightrl.ranges import Count, Natural, Positive, Share, Weight, Workers

Runs = Literal["inline", "process", "async"]
"""Where episodes and rewards run: in the training process, in worker processes that can be killed, or in an event loop."""
Thoughts = Literal["keep", "strip"]
"""Whether the policy reads what its earlier turns thought."""
Said = str | Sequence[Message]
"""A text, or messages: a text in a conversation is a message of the user."""


def tool_names(tools: Sequence[JSON]) -> list[str]:
    """The names in JSON schemas of tools."""
    return [str(schema.get("function", schema).get("name")) for schema in tools]


class Reply(NamedTuple):
    """The answer of an environment to one turn of the policy."""

    said: Said = ""
    """What the policy reads next; with `done`, what closes the episode: it stands in the table of completions and in `messages`, and
    no policy reads it. An episode that goes on must be told something."""
    reward: float | None = None
    """A finite reward for this turn; None: there is none."""
    done: bool = False
    """The episode is over."""
    state: Mapping[str, JSON] | None = None
    """Facts of the episode, for rewards that ask for `state`: the last ones count. None: those before."""
    counts: Mapping[str, float] | None = None
    """Numbers that are added up over a rollout and all ranks, and logged as `environment/{name}`."""
    extras: Mapping[str, float] | None = None
    """Numbers for parts of the algorithm, by names that the class declares: those in `gives` are of the episode, the last ones
    count; those in `gives_per_turn` are of the turn that is answered."""


class Environment(Part):
    """Answers the policy, turn by turn, in an episode of its own for every completion.

    Each episode has its own copy of the instance that the config describes: what `begin` and `reply` write into `self` belongs to one
    episode. They run in worker processes that are killed when a call takes too long, unless the class says otherwise. The replies of an
    episode are a function of its prompt, its seed and what the policy said, since an episode whose worker was killed by another
    one is begun again and brought to the same point. `random` and numpy's global generator may be used: each episode has a state of
    its own, unless it runs in an event loop.

    An environment that raises, takes too long, or gives a reward that is not finite has failed: the row is not scorable, leaves the
    statistics and the loss, and is counted. It never becomes a reward of 0.
    """

    runs: Runs = "process"
    """Where its episodes run. A class whose calls are quick, always return and never crash sets `inline`."""
    describes_tools: bool = False
    """Its openings show the tools themselves, so that the chat template is not given them."""
    gives_rewards: bool = False
    """Replies have rewards: `model.rewards` may then be empty."""
    gives: frozenset[str] = frozenset()
    """Names of the numbers of an episode that replies give in `extras`; parts read them as extras `[N]`, 0 where no reply gave one."""
    gives_per_turn: frozenset[str] = frozenset()
    """Names of the numbers of a turn that replies give in `extras`; parts read them as extras `[N, L]`, on each token of the turn,
    and 0 on turns for which no reply gave one and on tokens of others."""
    author: ClassVar[str] = "environment"
    """Who answers, in the table of completions."""

    def __init__(
        self,
        max_turns: Count = 10,
        max_turn_tokens: Count | None = None,
        max_episode_tokens: Count | None = None,
        weight: Weight = 1.0,
        timeout_s: Positive = 10.0,
        workers: Workers = 2,
        memory_mb: Natural = 4096,
        slices: Count = 2,
        max_error_rate: Share = 0.5,
        error_window: Count = 256,
        thoughts: Thoughts = "keep",
    ) -> None:
        """
        Args:
            max_turns: the policy's turns in an episode at most; one that reaches it without having been ended has the finish
                reason `turns`.
            max_turn_tokens: limit on the tokens of one turn, EOS included; null: the engine's `max_new_tokens`.
            max_episode_tokens: limit on the tokens of an episode after its opening, those of the environment included; null: the
                policy's positions are the only limit.
            weight: the factor of its rewards in the sum of rewards; 0 logs them without training on them.
            timeout_s: wall-clock seconds for one call, after which its worker is killed and the episode has failed.
            workers: processes that answer at the same time.
            memory_mb: megabytes that a worker may take beyond what it has at its start; 0: no limit.
            slices: parts in which the episodes of a rollout take turns: while the environments of one part answer, the next part is
                sampled. 1 waits for all of them.
            max_error_rate: failed episodes among the last `error_window`, as a share of `error_window`, above which training
                stops; in [0, 1]; 1: never.
            error_window: how many episodes the error rate looks back on; at least 1.
            thoughts: `strip`: a turn does not read what earlier ones thought, as chat templates and servers of thinking models have it, and
                each turn is learnt from after what it has read; `keep`: it reads all that was said.

        Raises:
            ValueError: an argument outside its range.
        """
        self.thoughts: Thoughts = thoughts
        self.max_turns, self.max_turn_tokens, self.max_episode_tokens = max_turns, max_turn_tokens, max_episode_tokens
        self.weight, self.timeout_s, self.workers, self.memory_mb, self.slices = weight, timeout_s, workers, memory_mb, slices
        self.max_error_rate, self.error_window = max_error_rate, error_window

    @property
    def tools(self) -> Sequence[JSON]:
        """JSON schemas of functions that the policy may call, shown to it by its chat template, which must do so; none by default."""
        return ()

    def check(self, columns: frozenset[str]) -> None:
        """Refuse, with a ValueError, settings and prompts with these columns that cannot work; called once before training."""

    def example_prompts(self) -> Sequence[Prompt]:
        """Prompts that it can begin with, at least one, for the tests of its contract; one whose prompts need more overrides it."""
        question = "What is 12 + 30?"
        return (
            Prompt(id="text", text=question, answer="42"),
            Prompt(id="messages", messages=({"role": "user", "content": question},), answer="42"),
        )

    def example_turns(self, prompt: Prompt, seed: int) -> Sequence[str]:
        """The turns of a policy that plays well, so that the tests of its contract come to what stands behind them; none by default."""
        return ()

    @abstractmethod
    def begin(self, prompt: Prompt, seed: int) -> Said | Awaitable[Said]:
        """The whole opening that the policy reads first, its prompt included; called once, first.

        Args:
            prompt: the prompt of the episode; `own_opening(prompt)` is what it says by itself.
            seed: a function of the run's seed, the prompt's id and the data epoch, at least 0 and below 2^31: the same for all episodes
                of a group.
        """

    @abstractmethod
    def reply(self, completion: str) -> Reply | Awaitable[Reply]:
        """The answer to a turn of the policy, decoded without the closing special token."""

    def end(self) -> Any:
        """Give back what the episode holds; called once when it is over, also when it was cut off. What it raises is logged."""


class SingleTurn(Environment):
    """The policy answers its prompt once, and nobody replies."""

    runs = "inline"

    def __init__(self) -> None:
        super().__init__(max_turns=1, slices=1)

    def begin(self, prompt: Prompt, seed: int) -> Said:
        return own_opening(prompt)

    def reply(self, completion: str) -> Reply:
        return Reply(done=True)


class AsyncEnvironment(Environment):
    """An environment that waits for somebody else, such as a service behind HTTP; many episodes wait at once, in one event loop.

    `begin`, `reply` and `end` are coroutines. They must not block the loop: no `time.sleep`, no synchronous client.
    """

    runs = "async"

    def __init__(self, timeout_s: Positive = 60.0, concurrency: Count = 16, **kwargs: Any) -> None:
        """
        Args:
            timeout_s: wall-clock seconds for one call, after which it is cancelled and the episode has failed.
            concurrency: calls under way at the same time; at least 1.
            **kwargs: the arguments of `Environment`, but for `workers` and `memory_mb`.

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(timeout_s=timeout_s, **kwargs)
        self.concurrency = concurrency

    @abstractmethod
    async def begin(self, prompt: Prompt, seed: int) -> Said:
        """As `Environment.begin`, awaited."""

    @abstractmethod
    async def reply(self, completion: str) -> Reply:
        """As `Environment.reply`, awaited."""

    async def end(self) -> None:
        """As `Environment.end`, awaited."""


def declared_extras(environment: Environment) -> frozenset[str]:
    """The names of all extras that an environment declares."""
    return environment.gives | environment.gives_per_turn


def own_opening(prompt: Prompt) -> Said:
    """The prompt's own text, or its own messages."""
    return prompt.text if prompt.text is not None else list(prompt.messages or ())
