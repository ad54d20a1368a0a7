"""Behaviour of a server, found out by asking it: labels and settings are not believed, since unknown fields are ignored in silence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from lightrl import Request, Result, Sampling
from lightrl_servers.server import ServerError
from lightrl_servers.words import Words

LENGTH, TOKENS = 160, 8
"""Tokens of the context, more than a block of keys and values; and tokens that are sampled."""
HOT, COLD = 2.0, 0.1
"""The highest temperature that vLLM takes, at which seeds hardly give the same tokens; and one at which the likeliest are sampled."""
SEEDS = range(1, 9)
NARROW = {
    "top_k": Sampling(temperature=HOT, top_k=1),
    "top_p": Sampling(temperature=HOT, top_p=1e-6),
    "min_p": Sampling(temperature=HOT, min_p=0.9999),
}
"""By field, a setting that leaves one token; or two, if they are as good as equal."""
Answers = Callable[[Sequence[Request]], Awaitable[list[Result]]]
HERE = ("http://127.0.0.1:", "http://localhost:", "http://[::1]:")
"""Addresses that only this machine reaches."""


@dataclass(frozen=True)
class Meaning:
    """The meaning of a server's log-probs."""

    tempered: bool
    """Logits are divided by the temperature."""
    renormalized: bool
    """Where top_k, top_p or min_p leave tokens out, the others add up to 1."""

    def is_ours(self, sampling: Sampling) -> bool:
        """They are log-softmax(logits / temperature) over the whole vocabulary."""
        filtered = (sampling.top_p, sampling.top_k, sampling.min_p) != (1.0, 0, 0.0) and sampling.temperature > 0
        return (self.tempered or sampling.temperature in (0, 1)) and not (filtered and self.renormalized)

    def told(self, words: Words) -> str:
        """The meaning as the end of a sentence."""
        mode = words.modes.get((self.tempered, self.renormalized))
        return (
            f"of logits that are {'divided' if self.tempered else 'not divided'} by the temperature, over "
            f"{'the tokens that filters leave' if self.renormalized else 'the whole vocabulary'}{f' ({mode})' if mode else ''}"
        )


def probe_context(positions: int) -> list[int]:
    """Token ids that every vocabulary has."""
    return [2 + t * t % 11 for t in range(min(LENGTH, positions - TOKENS))]


def probe(number: int, ids: list[int], sampling: Sampling, limit: int = TOKENS, ends: frozenset[int] = frozenset()) -> Request:
    """A request whose number is its seed."""
    return Request(number, ids, limit, sampling, ends, seed=number, episode=number)


async def find_meaning(ask: Answers, ids: list[int], words: Words) -> Meaning:
    """Try every field of a request, and find out what log-probs mean; a ServerError if a field has no effect."""
    (greedy,) = await ask([probe(0, ids, Sampling(temperature=0.0))])
    await _expect_end(ask, ids, greedy)
    first, again = [await _tokens(ask, ids, Sampling(temperature=HOT)) for _ in range(2)]
    if len(set(first)) < 3:
        raise ServerError(
            f"at temperature {HOT:g} {len(SEEDS)} seeds gave the tokens {set(first)}: temperature or {words.seed} has no effect"
        )
    if first != again:
        advice = f". {words.no_seeds}" if words.no_seeds else ""
        raise ServerError(
            f"the same seeds gave tokens {first} and then {again}: {words.seed} has no effect, so no run could be repeated{advice}"
        )
    for field, sampling in NARROW.items():
        narrow = await _tokens(ask, ids, sampling)
        if narrow == first or len({tokens[0] for tokens in narrow}) > 2:
            raise ServerError(f"{field} has no effect: a setting that leaves one token gave {sorted(set(narrow))}")
    cold = await ask([probe(seed, ids, Sampling(temperature=COLD)) for seed in SEEDS])
    if [tuple(result.tokens) for result in cold] == first:
        raise ServerError(f"temperature has no effect: at {HOT:g} and at {COLD:g} the same seeds gave tokens {first}")
    alone = await ask([probe(1, ids, Sampling(temperature=1.0, top_k=1))])
    return Meaning(_shrunk(cold, greedy), _shrunk(alone, greedy))


async def _tokens(ask: Answers, ids: list[int], sampling: Sampling) -> list[tuple[int, ...]]:
    """The tokens of each seed."""
    return [tuple(result.tokens) for result in await ask([probe(seed, ids, sampling) for seed in SEEDS])]


async def _expect_end(ask: Answers, ids: list[int], greedy: Result) -> None:
    end = greedy.tokens[len(greedy.tokens) // 2]
    # an answer that goes on behind it is refused as it is read
    (ended,) = await ask([probe(0, ids, Sampling(temperature=0.0), ends=frozenset({end}))])
    if ended.tokens[-1] != end:
        raise ServerError(f"stop_token_ids has no effect: with token {end} in it the same request gave {ended.tokens}")


def _shrunk(results: Sequence[Result], greedy: Result) -> bool:
    """Likeliest tokens have become likelier than they are at temperature 1."""
    now, before = 0.0, 0.0
    for result in results:
        for t, token in enumerate(result.tokens):
            if token != greedy.tokens[t]:
                break
            now, before = now + result.logprobs[t], before + greedy.logprobs[t]
    return now > 0.8 * before


def warnings_of(meanings: Mapping[str, Meaning], sampling: Sampling, keyed: bool, words: Words) -> list[str]:
    """Sentences for the log."""
    open_routes = [
        f"{address}: no key guards the routes that pause a server and change its weights ({words.open_routes}): anyone "
        f"who reaches it can call them. Keep it in a private network{' or start it with a key' if words.guarded else ''}"
        for address in meanings
        if _is_open(address, keyed, words)
    ]
    others = [
        f"{address}: its log-probs are {meaning.told(words)}. At {sampling} that is not log-softmax(logits / temperature) over the whole "
        f"vocabulary, so the trainer computes its own; tokens are sampled as asked. {words.comparable}"
        for address, meaning in meanings.items()
        if not meaning.is_ours(sampling)
    ]
    return open_routes + others


def _is_open(address: str, keyed: bool, words: Words) -> bool:
    here = address.startswith(HERE)
    # a key that guards other routes alone may make somebody feel safe
    return not here and not keyed if words.guarded else keyed or not here
