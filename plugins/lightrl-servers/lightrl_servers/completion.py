"""A completion in the answer of a server, and the result that it is; what the server left out or added is an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Lt

from lightrl import Request, Result
from lightrl_servers.server import ServerError
from lightrl_servers.words import Words

SEEDS = 1 << 63
"""Seeds are below it; -1 would mean none."""
LEAST, ROUNDED = -1000.0, 1e-3
"""Bounds of log-probs: a server writes a number far below where one is not finite, and rounding may lift one above 0."""
Decode = Callable[[Sequence[int]], str]
Token = Annotated[int, Ge(0), Lt(1 << 31)]
"""An id in an answer."""


@dataclass(frozen=True)
class Completion:
    """An answer, by its types alone."""

    tokens: list[int]
    """Ids that were sampled, an end included."""
    reason: str | None
    """Why it ended, by the server."""
    stopped_by: str | int | None
    """The token or the string that ended it, if the server names one."""
    logprobs: list[tuple[int, float | None]]
    """The token that each log-prob is of, and its value; None: it is not finite."""
    versions: list[str]
    """Of the weights that sampled it; empty if the server does not say."""
    cached: int
    """Tokens of the context that were not read again."""


def result_of(completion: Completion, request: Request, version: int | None, decode: Decode, words: Words) -> Result:
    """The result of a request; a ServerError says in which way the answer is no completion of it.

    Args:
        completion: the answer.
        request: what was asked.
        version: of the last weights; None: none were given yet.
        decode: the text of tokens.
        words: of the server.
    """
    tokens, reason = completion.tokens, completion.reason
    if reason not in ("stop", "length"):
        raise ServerError(f"finish_reason is {reason!r}, so the {len(tokens)} tokens are no completion: {words.aborted}")
    _check_end(completion, reason, request, decode, words)
    logprobs = _logprobs(completion)
    read = max(0, len(request.context) - completion.cached)
    return Result(request.id, tokens, logprobs, reason, _versions(completion, version), read)


def _check_end(completion: Completion, reason: str, request: Request, decode: Decode, words: Words) -> None:
    tokens, stop = completion.tokens, request.sampling.stop
    # tokenizers that drop a leading space can hide a stop string from us
    stopped = bool(stop) and (completion.stopped_by in stop or any(text in decode(tokens) for text in stop))
    if not 1 <= len(tokens) <= request.limit:
        raise ServerError(f"it sampled {len(tokens)} tokens, expected 1 to {request.limit}: {words.limit} has no effect")
    if request.ends.intersection(tokens[:-1]):
        raise ServerError(f"it goes on behind one of stop_token_ids, {sorted(request.ends)}: the field has no effect")
    if reason == "stop" and tokens[-1] not in request.ends and not stopped:
        raise ServerError(
            f"it ended at token {tokens[-1]}, which is none of stop_token_ids ({sorted(request.ends)}), and no stop string is in the text: "
            "it has an end of its own"
        )
    if reason == "length" and (tokens[-1] in request.ends or stopped):
        raise ServerError("finish_reason is 'length' although the completion has ended: stop or stop_token_ids has no effect")
    if reason == "length" and len(tokens) < request.limit:
        raise ServerError(f"it cut the completion at {len(tokens)} of {request.limit} tokens: raise its {words.positions}")


def _logprobs(completion: Completion) -> list[float]:
    tokens, found = completion.tokens, list[float]()
    if len(completion.logprobs) != len(tokens):
        raise ServerError(f"it gave {len(completion.logprobs)} log-probs for {len(tokens)} tokens")
    for t, ((named, value), token) in enumerate(zip(completion.logprobs, tokens, strict=True)):
        if named != token:
            raise ServerError(f"log-prob {t} is of token {named}, and token {t} is {token}")
        if value is None or not LEAST < value <= ROUNDED:
            raise ServerError(f"the log-prob of token {t} is {value}: the weights are not finite, or filters left the token out")
        found.append(value)
    return found


def _versions(completion: Completion, version: int | None) -> tuple[tuple[int, int], ...]:
    count, named = len(completion.tokens), sorted(set(completion.versions))
    if version is None:
        return ((0, count),)
    if named and named != [str(version)]:
        raise ServerError(
            f"it sampled with weights of version {' and '.join(named)}, and the last update was to {version}: the update has not arrived, "
            "or another run updates the server"
        )
    return ((version, count),)
