"""A request of lightrl as vLLM takes it, and what it answers."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge
from lightrl_servers.completion import SEEDS, Completion, Token
from lightrl_servers.server import Answer, Form, read_as

from lightrl import Request

PATH = "/inference/v1/generate"


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

    token_ids: list[Token]
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


def completion_of(answer: Answer) -> Completion:
    """The completion in an answer to `generate_body`, by its types; a ServerError if they are others."""
    generated = read_as(Generated, answer)
    (choice,), usage = generated.choices, generated.usage or Usage()
    content = (choice.logprobs.content if choice.logprobs else None) or []
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
    return Completion(
        tokens=choice.token_ids,
        reason=choice.finish_reason,
        stopped_by=choice.stop_reason,
        logprobs=[(entry.token_id, entry.logprob) for entry in content],
        versions=[str(span.version) for span in choice.weight_versions or ()],
        cached=cached or 0,
    )
