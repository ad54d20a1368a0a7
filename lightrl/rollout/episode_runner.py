"""One call of the loop: its episodes from their openings to their ends."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lightrl.environments.episode_host import EpisodeAnswer, EpisodeHost, PendingAnswers
from lightrl.ops.random import row_seed
from lightrl.ops.thoughts import mark_left_open
from lightrl.parts.engine import Request, Result, RolloutEngine, SampledPolicy, Sampling
from lightrl.parts.environment import Reply, Said, own_opening
from lightrl.prompt import Message, Prompt
from lightrl.rollout.episode_state import EpisodeState
from lightrl.text.encoding import EncodedTurn
from lightrl.text.stripped_turns import StrippedTurns
from lightrl.text.turn_encoder import TurnEncoder
from lightrl.workers.calls import describe


@dataclass
class _Slice:
    """Episodes whose turns are sampled together."""

    live: list[EpisodeState]
    """Those that are not over."""
    pending: list[tuple[list[EpisodeState], PendingAnswers]] = field(default_factory=list)
    """Answers of the environment to come."""
    asked: dict[int, EpisodeState] = field(default_factory=dict)
    """Requests under way."""


class EpisodeRunner:
    """Plays episodes in slices: turn k of every episode of a slice, then turn k of the next slice.

    While one slice is sampled, the environments of the others answer. Which requests meet in a call of the engine is a function of the
    prompts and the settings, never of who was quicker.
    """

    def __init__(
        self,
        engine: RolloutEngine,
        host: EpisodeHost,
        encoder: TurnEncoder,
        policy: SampledPolicy,
        sampling: Sampling,
        show: Callable[[str], None],
        check_template: Callable[[], None],
    ) -> None:
        """
        Args:
            show: reports how far the episodes have come.
            check_template: finds out whether conversations can be continued; called before each that begins.
        """
        self._engine, self._host, self._encoder, self._policy = engine, host, encoder, policy
        self._sampling, self._show, self._check_template = sampling, show, check_template
        self._environment = host.environment
        self._openings: dict[tuple[str, bool], EncodedTurn] = {}
        self._before: dict[tuple[int, ...], str] = {}
        self._stripped = StrippedTurns(policy.tokenizer, policy.decode) if host.environment.thoughts == "strip" else None
        self._closing, self._positions = frozenset(policy.eos_token_ids), policy.max_positions

    def run(self, episodes: Sequence[EpisodeState]) -> None:
        """Bring all episodes to their ends."""
        slices = [_Slice(list(part)) for part in _parts(episodes, self._environment.slices)]
        for part in slices:
            part.pending = [(part.live, self._host.begin([(e.number, e.prompt, e.seed) for e in part.live]))]
        answering, sampled = deque(slices), deque[_Slice]()
        # an engine elsewhere has work for every slice at once; one that decodes here takes them in turn
        at_once = 1 if self._engine.in_process else max(1, len(slices))
        while answering or sampled:
            while answering and len(sampled) < at_once:
                self._ask(answering[0])
                sampled.append(answering.popleft())
            part = sampled.popleft()
            self._wait_for_turns(part, [part, *sampled])
            if part.live:
                answering.append(part)
            self._tell(episodes)

    def _ask(self, part: _Slice) -> None:
        """Take the environment's answers, and ask the engine for the next turn of the episodes that go on."""
        for episodes, pending in part.pending:
            for episode, answer in zip(episodes, pending.result(), strict=True):
                self._take(episode, answer)
        part.pending = []
        part.live = [episode for episode in part.live if episode.finish_reason is None]
        part.asked = {episode.number: episode for episode in part.live}
        if part.live:
            self._engine.submit([self._request(episode) for episode in part.live])

    def _wait_for_turns(self, part: _Slice, under_way: Sequence[_Slice]) -> None:
        """Take results until every request of the slice has one; replies are asked for as turns come in."""
        while part.asked:
            results = self._engine.results()
            if not results:
                name = type(self._engine).__name__
                raise RuntimeError(f"{name} has no results left, and {len(part.asked)} requests were never answered")
            for owner in under_way:
                self._take_turns(owner, [result for result in results if result.id in owner.asked])

    def _take_turns(self, part: _Slice, results: Sequence[Result]) -> None:
        heard: list[tuple[EpisodeState, str]] = []
        for result in results:
            episode = part.asked.pop(result.id)
            opened = self._environment.max_turns > 1 and self._encoder.opens_turn(result.tokens)
            text = self._text(episode, result)
            # in some families the marks of a call are special tokens
            told = self._text(episode, result, special=True) if self._environment.tools else text
            episode.sample(result, text, opened)
            if result.finish_reason == "length":
                # nobody can answer half a turn
                episode.finish_reason = "length"
            else:
                heard.append((episode, told))
        part.live = [episode for episode in part.live if episode.finish_reason is None]
        if heard:
            asked = self._host.reply([(episode.number, text) for episode, text in heard])
            part.pending.append(([episode for episode, _ in heard], asked))

    def _take(self, episode: EpisodeState, answer: EpisodeAnswer) -> None:
        if answer.error is not None:
            self._fail(episode, answer.error, answer.late, answer.seconds)
        elif answer.reply is not None:
            self._hear(episode, answer.reply, answer.seconds)
        elif answer.said is not None:
            if not isinstance(answer.said, str):
                self._check_template()
            try:
                self._begin(episode, answer.said, answer.seconds)
            except Exception as error:
                # tokenizers raise exceptions of no particular class; the data's own opening is no fault of an episode
                if answer.said == own_opening(episode.prompt):
                    raise
                seconds = 0.0 if episode.opening else answer.seconds
                self._fail(episode, f"its opening cannot be used: {describe(error)}", late=False, seconds=seconds)

    def _begin(self, episode: EpisodeState, said: Said, seconds: float) -> None:
        episode.begin(said, self._opening(episode.prompt, said), seconds)
        if self._stripped is not None:
            episode.history = episode.opening
        if self._room(episode) < 1:
            raise ValueError(
                f"prompt {episode.prompt.id!r} has {episode.length} tokens and the policy takes rows of at most "
                f"{self._positions}, which leaves no position for an answer: shorten or leave out prompts of this length"
            )

    def _fail(self, episode: EpisodeState, error: str, late: bool, seconds: float) -> None:
        if not episode.opening:
            # a row has a token, also one that nothing is learnt from
            episode.opening = [min(self._closing)]
        episode.fail(error, late, seconds)

    def _hear(self, episode: EpisodeState, reply: Reply, seconds: float) -> None:
        before = list(episode.chat)
        episode.hear(reply, seconds)
        if reply.done:
            episode.finish_reason = "stop"
        elif episode.turns >= self._environment.max_turns:
            episode.finish_reason = "turns"
        else:
            self._extend(episode, before, reply.said)

    def _extend(self, episode: EpisodeState, before: list[Message], said: Said) -> None:
        try:
            encoded = self._encoder.continuation(before, episode.tokens[-1], said)
        except Exception as error:
            # tokenizers raise exceptions of no particular class
            episode.fail(f"what it said cannot be encoded: {describe(error)}", late=False, seconds=0.0)
            return
        if self._stripped is not None:
            episode.history = self._without_thoughts(episode, self._stripped)
        if self._room(episode) <= len(encoded.ids):
            episode.finish_reason = "length"
        else:
            episode.extend(encoded)

    def _without_thoughts(self, episode: EpisodeState, stripped: StrippedTurns) -> list[int]:
        """The context of the last turn, and the turn itself, what closes it included."""
        turn = episode.tokens[-episode.readings[-1].length :]
        said = turn[:-1] if turn[-1] in self._closing else turn
        return [*stripped.history(episode.context, said, episode.completion), *turn[len(said) :]]

    def _opening(self, prompt: Prompt, said: Said) -> EncodedTurn:
        # equal openings share one list of tokens, which is read once
        rendered = prompt.rendered and said == prompt.text
        key = said if isinstance(said, str) else json.dumps(list(said)), rendered
        if key not in self._openings:
            try:
                self._openings[key] = self._encoder.opening(said, rendered)
            except ValueError as error:
                raise ValueError(f"prompt {prompt.id!r}: {error}") from error
        return self._openings[key]

    def _request(self, episode: EpisodeState) -> Request:
        turn_limit = self._environment.max_turn_tokens
        new = self._sampling.max_new_tokens
        limit = min(new if turn_limit is None else min(new, turn_limit), self._room(episode))
        return Request(
            id=episode.number,
            context=episode.context,
            limit=limit,
            sampling=self._sampling,
            ends=self._closing,
            seed=row_seed(*episode.key, episode.turns) if episode.turns else episode.row_seed,
            episode=episode.number,
            # a later context does not begin with this one and what was said
            open=self._stripped is None and episode.turns + 1 < self._environment.max_turns,
        )

    def _room(self, episode: EpisodeState) -> int:
        """Tokens that still fit."""
        most = self._environment.max_episode_tokens
        read = episode.length if episode.history is None else len(episode.history)
        of_row = sys.maxsize if self._positions is None else self._positions - read
        return of_row if most is None else min(of_row, most - len(episode.tokens))

    def _text(self, episode: EpisodeState, result: Result, special: bool = False) -> str:
        # an EOS id that the tokenizer does not call special would show in the text
        closed = result.finish_reason == "stop" and result.tokens[-1] in self._closing
        ids = result.tokens[:-1] if closed else result.tokens
        decode = self._policy.tokenizer.decode
        text = decode(ids, skip_special_tokens=False) if special else self._policy.decode(ids)
        # a template may open a thought, by a mark of few tokens: where nothing ends it, all of the turn is one
        before = tuple((episode.tokens or episode.opening)[-8:])
        if before not in self._before:
            self._before[before] = decode(before, skip_special_tokens=False)
        return mark_left_open(self._before[before], text) + text

    def _tell(self, episodes: Sequence[EpisodeState]) -> None:
        if self._environment.max_turns > 1:
            over = sum(episode.finish_reason is not None for episode in episodes)
            turn = max((episode.turns for episode in episodes), default=0)
            self._show(f"turn {turn}, {over} of {len(episodes)} episodes over")


def _parts(episodes: Sequence[EpisodeState], slices: int) -> list[Sequence[EpisodeState]]:
    """Episodes in at most so many parts of about equal numbers of groups."""
    groups = sorted({episode.group for episode in episodes})
    size = max(1, -(-len(groups) // slices))
    owner = {group: i // size for i, group in enumerate(groups)}
    parts: dict[int, list[EpisodeState]] = {}
    for episode in episodes:
        parts.setdefault(owner[episode.group], []).append(episode)
    return list(parts.values())
