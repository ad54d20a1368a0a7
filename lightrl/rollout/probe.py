"""A few tokens from an engine, to be compared with the trainer's own log-probs of them."""

from __future__ import annotations

from collections.abc import Iterator

from lightrl.ops.random import row_seed
from lightrl.parts.engine import Request, RolloutEngine, SampledPolicy
from lightrl.rollout.open_episode import OpenEpisode
from lightrl.rollout.rows import rollout_of
from lightrl.types import Rollout

ROWS = 4
"""Rows that are compared."""
TOKENS = 8
"""Tokens of a row, at most."""


def probe(engine: RolloutEngine, rollout: Rollout, policy: SampledPolicy, version: int, numbers: Iterator[int]) -> Rollout:
    """Have an engine begin some rows of a rollout anew.

    Args:
        engine: with the weights of that version, and nothing under way.
        rollout: whose first `ROWS` rows with a response are begun; fewer if there are fewer.
        policy: decodes nothing, and says which tokens end a row.
        version: of the weights.
        numbers: of episodes.

    Returns:
        Rows of at most `TOKENS` sampled tokens each.

    Raises:
        RuntimeError: the engine cannot go on.
    """
    begun = dict[int, OpenEpisode]()
    requests = list[Request]()
    for row in (rollout.response_lengths > 0).nonzero()[:ROWS, 0].tolist():
        prompt, first = rollout.prompts[row], int(rollout.response_mask[row].nonzero()[0])
        episode = OpenEpisode(next(numbers), prompt, row, (engine.seed, "probe", version, prompt.id, row), seed=0)
        episode.opening = rollout.input_ids[row, :first].tolist()
        begun[episode.number] = episode
        requests.append(
            Request(
                id=episode.number,
                context=episode.opening,
                # as many as the row had are known to fit
                limit=min(TOKENS, int(rollout.response_lengths[row])),
                sampling=engine.sampling,
                ends=frozenset(policy.eos_token_ids),
                seed=row_seed(*episode.key),
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
    return rollout_of(list(begun.values()), engine.sampling.temperature or 1.0, version)
