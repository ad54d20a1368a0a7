"""A few tokens from an engine, to be compared with the trainer's own log-probs of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lightrl.parts.engine import Request, RolloutEngine, SampledPolicy
from lightrl.rollout.episode_state import EpisodeState
from lightrl.rollout.rows import rollout_of
from lightrl.types import Prompt, Rollout

ROWS = 4
"""Rows that are compared."""
TOKENS = 8
"""Tokens of a row, at most."""


@dataclass(frozen=True)
class Question:
    """A context that the engine is asked to continue after each update."""

    id: str
    """Of the prompt that it is of, on which its random numbers depend."""
    context: list[int]
    """Token ids in front of the first sampled one."""
    limit: int
    """Tokens to be sampled, at most."""


def questions_of(rollout: Rollout) -> list[Question]:
    """The beginnings of the first `ROWS` rows with a response; fewer if there are fewer."""
    found = []
    for row in (rollout.response_lengths > 0).nonzero()[:ROWS, 0].tolist():
        first = int(rollout.response_mask[row].nonzero()[0])
        # as many as the row had are known to fit
        limit = min(TOKENS, int(rollout.response_lengths[row]))
        found.append(Question(rollout.prompts[row].id, rollout.input_ids[row, :first].tolist(), limit))
    return found


def probe(engine: RolloutEngine, questions: Sequence[Question], policy: SampledPolicy, version: int, numbers: Iterator[int]) -> Rollout:
    """Have an engine answer questions, with the same random numbers in every call.

    Args:
        engine: with the weights of that version, and nothing under way.

    Returns:
        Rows of at most `TOKENS` sampled tokens each.

    Raises:
        RuntimeError: the engine cannot go on.
    """
    sampling = replace(engine.sampling, temperature=engine.probed_at) if engine.sampling.temperature == 1 else engine.sampling
    begun = dict[int, EpisodeState]()
    requests = list[Request]()
    for row, question in enumerate(questions):
        episode = EpisodeState(next(numbers), Prompt(id=question.id, text=""), row, (engine.seed, "probe", question.id, row), seed=0)
        episode.opening = question.context
        begun[episode.number] = episode
        requests.append(
            Request(
                id=episode.number,
                context=question.context,
                limit=question.limit,
                sampling=sampling,
                ends=frozenset(policy.eos_token_ids),
                seed=episode.row_seed,
                episode=episode.number,
            )
        )
    if requests:
        engine.submit(requests)
    waiting = set(begun)
    while waiting:
        results = engine.results()
        if not results:
            raise RuntimeError(f"{type(engine).__name__} has no results left, and {len(waiting)} requests were never answered")
        for result in results:
            begun[result.id].sample(result, text="", opened=False)
            waiting.discard(result.id)
    engine.forget(list(begun))
    return rollout_of(list(begun.values()), sampling.temperature or 1.0, version)
