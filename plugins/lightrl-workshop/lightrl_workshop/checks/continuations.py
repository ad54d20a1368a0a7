"""Requests to a rollout engine, and how likely a policy says that the answers are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from lightrl.parts.engine import Request, Result, RolloutEngine, Sampling
from lightrl.policy.policy import Policy
from lightrl.policy.tiny import TinyPolicy
from lightrl.policy.weights import TrainerWeights
from lightrl_workshop.checks.check import BrokenContract, Make, expect, expect_same

SHORT, LONG = [4, 5, 18], [7, 12, 6, 3, 10, 8, 5, 18]
"""Contexts in the policy's tokens."""
ENDS = frozenset({1, 2, 3, 4})
"""Several of them, so that completions of both finish reasons are met."""
NO_END = frozenset({1})
"""The policy's EOS, which it hardly ever samples."""
NEARLY_LIKELIEST = 0.05
"""Largest distance to the highest logit of a token that counts as the likeliest, since kernels differ in their rounding."""


def peaked_policy(seed: int = 0) -> Policy:
    """A tiny policy with larger weights than those of a new one, so that contexts and weights matter."""
    policy = TinyPolicy(hidden=16, layers=1, heads=2, seed=seed).build()
    numbers = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, generator=numbers))
    return policy


@contextmanager
def running(make: Make[RolloutEngine], policy: Policy, version: int = 3) -> Iterator[RolloutEngine]:
    """A started engine with the weights of a policy, closed afterwards."""
    engine = make()
    engine.start()
    try:
        engine.update_weights(TrainerWeights(policy), version)
        yield engine
    finally:
        engine.close()


def request(
    number: int,
    context: Sequence[int] = SHORT,
    limit: int = 6,
    sampling: Sampling = Sampling(),
    ends: frozenset[int] = NO_END,
    further: bool = False,
) -> Request:
    """A request whose number is its id, its episode and its seed; `further`: another request of the episode follows."""
    return Request(number, context, limit, sampling, ends, seed=1000 + number, episode=number, open=further)


def group(sampling: Sampling = Sampling(), limit: int = 6, ends: frozenset[int] = NO_END, further: bool = False) -> list[Request]:
    """Three requests of one context and two of another, as a rollout asks for them."""
    contexts = [list(SHORT), list(LONG)]
    return [request(i, contexts[i // 3], limit, sampling, ends, further) for i in range(5)]


def answers(engine: RolloutEngine, requests: Sequence[Request]) -> dict[int, Result]:
    """Submit requests and take the result of each."""
    engine.submit(requests)
    return remaining(engine, requests)


def remaining(engine: RolloutEngine, requests: Sequence[Request]) -> dict[int, Result]:
    """The one result of each request under way, by id."""
    wanted, found = {request.id for request in requests}, dict[int, Result]()
    while results := engine.results():
        for result in results:
            if result.id not in wanted or result.id in found:
                state = "has two results" if result.id in found else "was not asked for"
                raise BrokenContract(f"request {result.id} {state}", requests=sorted(wanted), result=result)
            found[result.id] = result
    expect(found.keys() == wanted, f"requests {sorted(wanted - found.keys())} have no result", requests=sorted(wanted))
    return found


def turn_after(requests: Sequence[Request], found: dict[int, Result], further: bool = False) -> list[Request]:
    """The next turn of the episodes of these requests: two tokens of somebody else stand behind what was sampled."""
    return [
        Request(r.id, [*r.context, *found[r.id].tokens, 9, 18], r.limit, r.sampling, r.ends, r.seed + 7, r.episode, further)
        for r in requests
    ]


@torch.no_grad()
def logits_of(policy: Policy, asked: Request, result: Result) -> Tensor:
    """`[T, V]` logits of the trainer's policy at each of the T tokens of a result."""
    ids = torch.tensor([[*asked.context, *result.tokens]])
    logits: Tensor = policy.model(input_ids=ids, use_cache=False).logits
    return logits[0, len(asked.context) - 1 : -1]


@torch.no_grad()
def logprobs_of(policy: Policy, asked: Request, result: Result, temperature: float) -> tuple[Tensor, Tensor]:
    """`[T]` log-probs of a result: of the trainer's forward, which is given the tokens, at a temperature, and of the engine."""
    ids = torch.tensor([[*asked.context, *result.tokens]])
    mask = torch.arange(ids.shape[1])[None] >= len(asked.context)
    return policy(ids, mask, temperature).logprobs[mask], torch.tensor(result.logprobs)


def expect_exact(policy: Policy, requests: Sequence[Request], found: dict[int, Result]) -> None:
    """The log-probs of results are those of the trainer's forward."""
    for asked in requests:
        result = found[asked.id]
        ours, theirs = logprobs_of(policy, asked, result, asked.sampling.temperature or 1.0)
        expect_same(ours, theirs, "before: the trainer's log-probs, after: those of the result", 1e-4, request=asked, result=result)


def expect_likeliest(policy: Policy, requests: Sequence[Request], found: dict[int, Result]) -> None:
    """Each token of results at temperature 0 is the likeliest one, or as good as that."""
    for asked in requests:
        result = found[asked.id]
        logits = logits_of(policy, asked, result)
        behind = logits.amax(1) - logits[torch.arange(len(logits)), result.tokens]
        what = "at temperature 0 a token is not the likeliest: its logit is so far below the highest"
        expect(behind < NEARLY_LIKELIEST, what, below=behind, request=asked, result=result)


def likeliest_answers(engine: RolloutEngine, policy: Policy, requests: Sequence[Request]) -> dict[int, Result]:
    """The results of requests at temperature 0: the policy's likeliest tokens, with its log-probs where the engine has exact ones."""
    found = answers(engine, requests)
    expect_likeliest(policy, requests, found)
    if engine.exact_logprobs:
        expect_exact(policy, requests, found)
    return found
