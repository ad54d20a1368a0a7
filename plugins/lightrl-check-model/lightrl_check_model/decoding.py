"""Checks of generation: the log-prob of a sampled token must be the one that a forward pass of the whole row gives."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from lightrl import Policy, Request, Result, Sampling, TransformersEngine
from lightrl.policy.weights import TrainerWeights
from lightrl_check_model.check import Check
from lightrl_check_model.rows import Rows, alone, apart, chosen, copied, difference_of_model, in_lightrl, padded

NEW = 8
"""Sampled tokens of a row."""
GROUP = 2
"""Completions of a prompt."""


@torch.no_grad()
def decoding_checks(policy: Policy, rows: Rows) -> Iterator[Check]:
    """Compare log-probs of sampled tokens with those of a full forward pass.

    Args:
        policy: in evaluation mode.
        rows: prompts of several lengths, in token ids.
    """
    model, engine = policy.model, TransformersEngine(max_new_tokens=NEW)
    engine.update_weights(TrainerWeights(policy), 0)
    first = _sampled(engine, [(row, i) for i, row in enumerate(rows) for _ in range(GROUP)])
    whole = [[*context, *result.tokens] for context, result in first]
    sampled = [torch.tensor(result.logprobs) for _, result in first]
    ours = apart(sampled, [alone(model, row)[len(context) - 1 :] for row, (context, _) in zip(whole, first, strict=True)])
    cached = difference_of_model(lambda: apart([stepwise(model, row) for row in rows], [alone(model, row) for row in rows]))
    yield Check("cached decoding", cached, ours, "one token at a time, two completions for each prompt")
    left = difference_of_model(lambda: apart(padded(model, rows, left=True), [alone(model, row) for row in rows]))
    yield Check("left padding", left, ours, "prompts of several lengths")
    again = _sampled(engine, [([*row, *rows[0][:3]], episode) for episode, row in enumerate(whole)], first=len(whole))
    expected = [alone(model, [*context, *result.tokens])[len(context) - 1 :] for context, result in again]
    yield Check(
        "later turns", ours=apart([torch.tensor(result.logprobs) for _, result in again], expected), says="keys and values that are kept"
    )
    policy.train()
    trained = [values[-len(old) :] for values, old in zip(in_lightrl(policy, whole), sampled, strict=True)]
    policy.eval()
    ratios = torch.cat([(new - old).exp() - 1 for new, old in zip(trained, sampled, strict=True)]).abs()
    yield Check(
        "first-pass ratio", ours=float(ratios.max()), says="of the policy that learns to the one that sampled, before the first step"
    )


def _sampled(engine: TransformersEngine, asked: Sequence[tuple[Sequence[int], int]], first: int = 0) -> list[tuple[list[int], Result]]:
    """Contexts, of which those of a prompt are neighbours, with what was sampled for them; `first` is the number of the first request."""
    requests = [
        Request(first + i, context, NEW, Sampling(max_new_tokens=NEW), frozenset(), first + i, i, open=first == 0)
        for i, (context, _) in enumerate(asked)
    ]
    engine.submit(requests)
    found: dict[int, Result] = {}
    while len(found) < len(requests):
        found |= {result.id: result for result in engine.results()}
    return [(list(request.context), found[request.id]) for request in requests]


def stepwise(model: Any, row: Sequence[int]) -> Tensor:
    """`[L - 1]` log-probs of the tokens of a row that is read half at once and then token by token, with the cache of transformers."""
    ids = torch.tensor([list(row)])
    half = len(row) // 2
    out = model(input_ids=ids[:, :half], use_cache=True)
    logits = [out.logits[0]]
    for place in range(half, len(row)):
        out = model(input_ids=ids[:, place : place + 1], past_key_values=out.past_key_values, use_cache=True)
        logits.append(out.logits[0])
    return chosen(torch.cat(logits), ids[0])


@torch.no_grad()
def narrow_check(policy: Policy, rows: Rows) -> Check:
    """How far bfloat16 moves the ratio of an unchanged policy, to be compared with the clip range.

    Args:
        policy: in float32 and evaluation mode.
        rows: prompts in token ids.
    """
    narrow = Policy(copied(policy.model, torch.bfloat16).eval(), policy.tokenizer)
    engine = TransformersEngine(max_new_tokens=NEW)
    engine.update_weights(TrainerWeights(narrow), 0)
    found = _sampled(engine, [(row, 0) for row in rows])
    old = [torch.tensor(result.logprobs) for _, result in found]
    new = [values[-NEW:] for values in in_lightrl(narrow, [[*context, *result.tokens] for context, result in found])]
    ratios = torch.cat([(b.float() - a).exp() - 1 for a, b in zip(old, new, strict=True)]).abs()
    says = f"mean {float(ratios.mean()):.2g}; `old_logprobs: auto` computes the old log-probs anew in bfloat16, which makes it 0"
    return Check("first-pass ratio in bfloat16", ours=float(ratios.max()), says=says, limit=None)
