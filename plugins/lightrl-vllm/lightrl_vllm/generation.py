"""A request of lightrl as the server takes it, and its answer as a result; what the server left out or added is an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from annotated_types import Ge, Lt

from lightrl import Request, Result
from lightrl_vllm.server import Answer, Form, ServerError, read_as

PATH = "/inference/v1/generate"
SEEDS = 1 << 63
"""Seeds are below it; -1 would mean none."""
LEAST, ROUNDED = -1000.0, 1e-3
"""Bounds of log-probs: the server writes -9999 where one is not finite, and rounding may lift one above 0."""
Decode = Callable[[Sequence[int]], str]


class Entry(Form):
    """A token and its log-prob."""

    token_id: int
    logprob: float


class Logprobs(Form):
    """One entry for each token."""

    content: list[Entry] | None = None


class Span(Form):
    """The version of the weights of some tokens."""

    version: str | int


class Choice(Form):
    """A completion."""

    token_ids: list[Annotated[int, Ge(0), Lt(1 << 31)]]
    finish_reason: str | None
    stop_reason: str | int | None = None
    logprobs: Logprobs | None = None
    weight_versions: list[Span] | None = None


class Details(Form):
    """Tokens of the context that were not read again."""

    cached_tokens: Annotated[int, Ge(0)] | None = None


class Usage(Form):
    """Counts of tokens."""

    prompt_tokens_details: Details | None = None


class Generated(Form):
    """The answer to `generate_body`."""

    choices: tuple[Choice]
    usage: Usage | None = None


def generate_body(request: Request, model: str) -> Answer:
    """The body of a request. The server ignores keys that it does not know, so that all of them are tried when it is connected."""
    sampling = request.sampling
    parameters: dict[str, Any] = {
        "n": 1,
        "max_tokens": request.limit,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": request.seed % SEEDS,
        "logprobs": 0,
        # the ends of the request alone, and not those of the model's generation config
        "stop_token_ids": sorted(request.ends),
        "ignore_eos": True,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }
    if sampling.stop:
        parameters["stop"] = list(sampling.stop)
    return {"token_ids": list(request.context), "sampling_params": parameters, "model": model, "output_mode": "tokens"}


def result_of(answer: Answer, request: Request, version: int | None, decode: Decode) -> Result:
    """The result in a server's answer to `generate_body`; a ServerError says in which way it is no completion of the request."""
    generated = read_as(Generated, answer)
    (choice,), usage = generated.choices, generated.usage or Usage()
    tokens, reason = choice.token_ids, choice.finish_reason
    if reason not in ("stop", "length"):
        raise ServerError(
            f"finish_reason is {reason!r}, so the {len(tokens)} tokens are no completion: somebody has paused the server without "
            "mode=wait, or is ending it"
        )
    _check_end(tokens, reason, choice.stop_reason, request, decode)
    logprobs = _logprobs(choice, tokens)
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
    read = max(0, len(request.context) - (cached or 0))
    return Result(request.id, tokens, logprobs, reason, _versions(choice, len(tokens), version), read)


def _check_end(tokens: list[int], reason: str, stopped_by: object, request: Request, decode: Decode) -> None:
    stop = request.sampling.stop
    # tokenizers that drop a leading space can hide a stop string from us
    stopped = bool(stop) and (stopped_by in stop or any(text in decode(tokens) for text in stop))
    if not 1 <= len(tokens) <= request.limit:
        raise ServerError(f"it sampled {len(tokens)} tokens, expected 1 to {request.limit}: max_tokens has no effect")
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
        raise ServerError(f"it cut the completion at {len(tokens)} of {request.limit} tokens: raise its --max-model-len")


def _logprobs(choice: Choice, tokens: list[int]) -> list[float]:
    content = (choice.logprobs.content if choice.logprobs else None) or []
    if len(content) != len(tokens):
        raise ServerError(f"it gave {len(content)} log-probs for {len(tokens)} tokens")
    named = [entry.token_id for entry in content]
    if named != tokens:
        t = next(t for t, (one, other) in enumerate(zip(named, tokens, strict=True)) if one != other)
        raise ServerError(f"log-prob {t} is of token {named[t]}, and token {t} is {tokens[t]}")
    for t, entry in enumerate(content):
        if not LEAST < entry.logprob <= ROUNDED:
            raise ServerError(f"the log-prob of token {t} is {entry.logprob}: the weights are not finite, or filters left the token out")
    return [entry.logprob for entry in content]


def _versions(choice: Choice, count: int, version: int | None) -> tuple[tuple[int, int], ...]:
    spans = choice.weight_versions or []
    named = sorted({str(span.version) for span in spans})
    if version is None:
        return ((0, count),)
    if spans and named != [str(version)]:
        raise ServerError(
            f"it sampled with weights of version {' and '.join(named)}, and the last update was to {version}: the update has not arrived, "
            "or another run updates the server"
        )
    return ((version, count),)
