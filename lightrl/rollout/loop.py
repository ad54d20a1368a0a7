"""The loop that makes a rollout of prompts, an environment and an engine; training, evaluation and every verb use it."""

from __future__ import annotations

import copy
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace

import torch

from lightrl.environments.episode_host import EpisodeHost
from lightrl.ops.random import row_seed
from lightrl.parts.engine import PolicyWeights, Result, RolloutEngine, SampledPolicy, Sampling
from lightrl.parts.environment import Environment, SingleTurn, own_opening
from lightrl.rollout.episode_runner import EpisodeRunner
from lightrl.rollout.episode_state import EpisodeState
from lightrl.rollout.probe import Question, probe, questions_of
from lightrl.rollout.rows import environment_extras, rollout_of
from lightrl.text.chat_template import with_arguments
from lightrl.text.encoding import EncodedTurn, closing_id, encode_sampled
from lightrl.text.turn_encoder import TurnEncoder
from lightrl.types import JSON, Prompt, Rollout

log = logging.getLogger(__name__)

SEEDS = 1 << 31
"""Seeds of environments lie below it."""


class LoopObserver:
    """Follows the work of a loop; this one does nothing."""

    def on_progress(self, progress: str) -> None:
        """A call with several turns has come so far."""

    def on_answers(self, answers: Rollout) -> None:
        """An engine with weights of its own has answered questions, the same ones after each update."""


class RolloutLoop:
    """An engine and an environment at work for one run, with the policy's weights and the position in its random numbers."""

    def __init__(self, engine: RolloutEngine, environment: Environment, observer: LoopObserver | None = None) -> None:
        """`observer`: is informed of progress and of the engine's answers; None: no observer."""
        self.engine, self.environment, self.host = engine, environment, EpisodeHost(environment)
        self._observer = observer or LoopObserver()
        self._calls, self._version = 0, 0
        self._checked = self._new_weights = False
        self._questions = list[Question]()
        self._weights: PolicyWeights | None = None
        self._encoder: TurnEncoder | None = None
        self._numbers = iter(range(sys.maxsize))  # unlike `count`, copied and pickled by every Python
        self._started = False

    def start(self) -> None:
        """Start what the engine and the environment need."""
        if not self._started:
            self._started = True
            self.engine.start()
            self.host.start()

    def close(self) -> None:
        """End what was started."""
        self._started = False
        self.host.close()
        self.engine.close()

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        """Let the engine have the policy's present weights. `version`: optimizer steps behind them."""
        self.start()
        if self._weights is None or self._weights.policy is not weights.policy:
            self._encoder = self.encoder(weights.policy)
            self._checked = False
            # those of a checkpoint are there before the first weights
            self._questions = self._questions if self._weights is None else []
        self._weights, self._version = weights, version
        self.engine.update_weights(weights, version)
        self._new_weights = not self.engine.in_process

    def encoder(self, policy: SampledPolicy, arguments: Mapping[str, JSON] | None = None) -> TurnEncoder:
        """Makes tokens of what is said to the policy; a ValueError if its chat template does not take these arguments of an evaluation."""
        tokenizer = copy.copy(policy.tokenizer) if arguments else policy.tokenizer
        if arguments:
            tokenizer.chat_template = with_arguments(tokenizer.chat_template, arguments, "model.evaluation.chat_template_kwargs")
        tools = () if self.environment.describes_tools else self.environment.tools
        return TurnEncoder(tokenizer, policy.eos_token_ids, tools)

    def rollout(self, prompts: Sequence[Prompt], n: int, sampling: Sampling | None = None) -> Rollout:
        """Completions, or whole episodes, for each prompt.

        Args:
            prompts: B of them; none gives a rollout of no rows.
            n: episodes per prompt; rows of a prompt are neighbours and share a group number, 0 to B - 1.
            sampling: in place of the engine's own.

        Raises:
            RuntimeError: `update_weights` was never called, or the engine cannot go on.
            ValueError: n below 1, or an opening that leaves no position for an answer.
            BrokenWeightsError: the policy's logits are NaN.
        """
        weights, encoder = self._ready(n)
        sampling = sampling or self.engine.sampling
        episodes = self._begun(prompts, n, self.engine.seed, self._calls)
        self._calls += 1
        numbers = [episode.number for episode in episodes]
        try:
            with weights.whole() if self.engine.in_process else nullcontext():
                show, check = self._observer.on_progress, self._check_template
                EpisodeRunner(self.engine, self.host, encoder, weights.policy, sampling, show, check).run(episodes)
        finally:
            self.engine.forget(numbers)
            self.host.end(numbers)
        self._count_failures(episodes)
        rollout = self._rows(episodes, sampling)
        self.probe(rollout)
        return rollout

    def given(self, prompts: Sequence[Prompt], completions: Sequence[str]) -> Rollout:
        """Rows of completions that somebody else wrote, whose log-probs are NaN.

        Args:
            prompts: B of them, each a group of one row.
            completions: the answers, without EOS.

        Raises:
            RuntimeError: `update_weights` was never called.
            ValueError: a row is longer than the policy takes, or an environment would have to answer.
        """
        weights, _ = self._ready(1)
        if not isinstance(self.environment, SingleTurn):
            name = type(self.environment).__name__
            raise ValueError(f"a given completion answers a prompt at once, and {name} plays episodes: leave model.environment out")
        episodes = self._begun(prompts, 1, self.engine.seed, "given", self._calls)
        for episode, completion in zip(episodes, completions, strict=True):
            self._write(episode, completion, weights.policy)
        rollout = self._rows(episodes, self.engine.sampling)
        return replace(rollout, rollout_logprobs=rollout.rollout_logprobs.masked_fill(rollout.response_mask, torch.nan))

    def probe(self, rollout: Rollout) -> None:
        """Have the engine answer its questions and inform the observer, once for each version of the weights.

        An engine whose log-probs cannot be compared is asked nothing.

        Args:
            rollout: if it is the first one, the beginnings of its first rows become the questions.
        """
        weights, _ = self._ready(1)
        if self._new_weights and self.engine.comparable_logprobs:
            self._new_weights = False
            self._questions = self._questions or questions_of(rollout)
            self._observer.on_answers(probe(self.engine, self._questions, weights.policy, self._version, self._numbers))

    @contextmanager
    def aside(self, encoder: TurnEncoder | None = None) -> Iterator[None]:
        """Within, calls leave the random numbers of later calls as they are, as those of an evaluation do; one may have its own encoder."""
        calls, own = self._calls, self._encoder
        try:
            self._encoder = encoder or own
            yield
        finally:
            self._calls, self._encoder = calls, own

    def state_dict(self) -> dict[str, JSON]:
        """The number of calls, on which random numbers depend, the questions to the engine, and the error budget of the environment."""
        questions = [asdict(question) for question in self._questions]
        return {"calls": self._calls, "questions": questions, "budget": self.host.budget.state_dict()}

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Take back what `state_dict` gave."""
        self._calls, self._questions = int(state["calls"]), [Question(**question) for question in state["questions"]]
        self.host.budget.load_state_dict(state["budget"])

    def _rows(self, episodes: Sequence[EpisodeState], sampling: Sampling) -> Rollout:
        rollout = rollout_of(episodes, sampling.temperature or 1.0, self._version)
        rollout.extras |= environment_extras(episodes, self.environment, rollout.response_mask)
        return rollout

    def _write(self, episode: EpisodeState, completion: str, policy: SampledPolicy) -> None:
        ends, prompt = policy.eos_token_ids, episode.prompt
        row = encode_sampled(policy.tokenizer, prompt, completion, closing_id(policy.tokenizer, ends), ends)
        if policy.max_positions is not None and len(row.ids) > policy.max_positions:
            raise ValueError(
                f"prompt {prompt.id!r} and its given completion have {len(row.ids)} tokens, and the policy takes rows of at most "
                f"{policy.max_positions}: drop the prompt, or shorten its answer"
            )
        episode.begin(own_opening(prompt), EncodedTurn(row.ids[: row.response], row.special), 0.0)
        tokens = row.ids[row.response :]
        result = Result(episode.number, tokens, [0.0] * len(tokens), "stop", ((self._version, len(tokens)),), read=0)
        episode.sample(result, completion, opened=False)
        episode.finish_reason = "stop"

    def _count_failures(self, episodes: Sequence[EpisodeState]) -> None:
        complaints = [episode.complaint for episode in episodes]
        self.host.budget.add(complaints)
        failed = [complaint for complaint in complaints if complaint is not None]
        if failed:
            name = type(self.environment).__name__
            log.warning("environment %s failed in %d of %d episodes; first: %s", name, len(failed), len(episodes), failed[0])

    def spent(self) -> str | None:
        """A complaint, if more episodes have failed than the environment's error budget allows."""
        complaint = self.host.budget.spent()
        name = type(self.environment).__name__
        return None if complaint is None else f"environment {name} {complaint}\nMend it, or raise its max_error_rate or error_window"

    def _check_template(self) -> None:
        if self._encoder is not None and not self._checked and self.environment.max_turns > 1:
            self._checked = True
            for sentence in self._encoder.check(self.environment.thoughts):
                log.warning(sentence)

    def _ready(self, n: int) -> tuple[PolicyWeights, TurnEncoder]:
        if self._weights is None or self._encoder is None:
            raise RuntimeError("a rollout was asked for before update_weights(weights, version): there are no weights to sample from")
        if n < 1:
            raise ValueError(f"a rollout needs n >= 1 completions per prompt, got {n}")
        return self._weights, self._encoder

    def _begun(self, prompts: Sequence[Prompt], n: int, *key: int | str) -> list[EpisodeState]:
        seed = self.engine.seed
        # a prompt drawn twice in a call gets new samples
        drawn: Counter[str] = Counter()
        episodes = []
        for group, prompt in enumerate(prompts):
            first = drawn[prompt.id]
            secret = row_seed(seed, "environment", prompt.id, int(prompt.meta.get("epoch", 0))) % SEEDS
            own = ((*key, prompt.id, first + i) for i in range(n))
            episodes += [EpisodeState(next(self._numbers), prompt, group, of_row, secret) for of_row in own]
            drawn[prompt.id] += n
        return episodes
