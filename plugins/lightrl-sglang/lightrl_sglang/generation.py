"""A request of lightrl as SGLang takes it, and what it answers."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge
from lightrl_servers.completion import SEEDS, Completion, Token
from lightrl_servers.server import Answer, Form, ServerError, read_as

from lightrl import Request

PATH = "/generate"


class Finish(Form):
    """Why a completion ended; `matched` is the token or the string that ended it."""

    type: str
    matched: int | str | list[int] | None = None


class Span(Form):
    """The version of the weights of some tokens."""

    version: str


class Meta(Form):
    """Further facts about a completion."""

    finish_reason: Finish | None
    output_token_logprobs: list[tuple[float | None, int, str | None]] | None = None
    """Log-prob, token and text; a log-prob that is not finite is null in JSON."""
    cached_tokens: Annotated[int, Ge(0)] | None = None
    weight_version: str | None = None
    weight_versions: list[Span] | None = None


class Generated(Form):
    """The answer to `generate_body`."""

    output_ids: list[Token]
    meta_info: Meta


def generate_body(request: Request, adapters: str | None, sampled: list[int]) -> Answer:
    """The body of a request, of which some tokens have been sampled.

    `ignore_eos` would leave `stop_token_ids` without effect too, so that it is set only where no token ends the request.
    """
    sampling = request.sampling
    parameters: dict[str, Any] = {
        "n": 1,
        "max_new_tokens": request.limit - len(sampled),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        "min_p": sampling.min_p,
        "sampling_seed": request.seed % SEEDS,
        "stop_token_ids": sorted(request.ends),
        "ignore_eos": not request.ends,
        "stop": list(sampling.stop),
        "no_stop_trim": True,
        # those of the model's generation config would count where none are given
        "min_new_tokens": 0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }
    body: Answer = {"input_ids": [*request.context, *sampled], "sampling_params": parameters}
    body |= {"return_logprob": True, "logprob_start_len": -1, "stream": False}
    return body | ({"lora_path": adapters} if adapters else {})


def completion_of(answer: Answer, request: Request) -> Completion:
    """The completion in an answer, by its types; a ServerError if they are others, or if the model has sampled no token at all."""
    generated = read_as(Generated, answer)
    meta, tokens = generated.meta_info, generated.output_ids
    matched = meta.finish_reason.matched if meta.finish_reason else None
    if isinstance(matched, str) and matched not in request.sampling.stop:
        # it writes an end in the place of a token that is none
        raise ServerError(f"it ended by {matched!r}, which is no stop string of the request: the weights are not finite")
    versions = [span.version for span in meta.weight_versions or ()] or [meta.weight_version or ""]
    return Completion(
        tokens=tokens,
        reason=meta.finish_reason.type if meta.finish_reason else None,
        stopped_by=None if isinstance(matched, list) else matched,
        logprobs=[(token, value) for value, token, _ in meta.output_token_logprobs or ()],
        versions=[version for version in versions if version],
        cached=meta.cached_tokens or 0,
    )


def ended_by_itself(completion: Completion, request: Request) -> bool:
    """The model's own EOS has ended it, which is none of the ends of the request."""
    tokens = completion.tokens
    return completion.reason == "stop" and bool(tokens) and completion.stopped_by == tokens[-1] and tokens[-1] not in request.ends


def joined(first: Completion, second: Completion) -> Completion:
    """A completion and what was sampled behind it."""
    return Completion(
        tokens=[*first.tokens, *second.tokens],
        reason=second.reason,
        stopped_by=second.stopped_by,
        logprobs=[*first.logprobs, *second.logprobs],
        versions=[*first.versions, *second.versions],
        cached=first.cached,
    )
