"""The contract of every rollout engine."""

from __future__ import annotations

import math
import multiprocessing
import threading

import torch

from lightrl.ops.sampling import truncate
from lightrl.parts.engine import RolloutEngine, Sampling
from lightrl.policy.weights import TrainerWeights
from lightrl_workshop.checks.check import Make, contract_check, expect
from lightrl_workshop.checks.continuations import (
    ENDS,
    LONG,
    answers,
    expect_exact,
    expect_likeliest,
    group,
    likeliest_answers,
    logits_of,
    logprobs_of,
    peaked_policy,
    remaining,
    request,
    running,
    turn_after,
)

KIND = "rollout engine"
GREEDY = Sampling(temperature=0.0)
DRAWS = 400
"""One-token completions from which a distribution is read."""


@contract_check(KIND, "every request gets one result, with at least one token and no more than its limit")
def complete(make: Make[RolloutEngine]) -> None:
    requests = [request(i, LONG[: 1 + i], limit) for i, limit in enumerate((1, 2, 5, 9))]
    with running(make, peaked_policy()) as engine:
        found = answers(engine, requests)
    for asked in requests:
        result, count = found[asked.id], len(found[asked.id].tokens)
        expect(1 <= count <= asked.limit, f"{count} tokens were sampled, expected 1 to {asked.limit}", request=asked, result=result)


@contract_check(KIND, "a completion ends with one of ends exactly if its finish reason is stop")
def finish_reasons(make: Make[RolloutEngine]) -> None:
    requests = [*group(ends=ENDS, limit=8), request(7, LONG, 8, ends=frozenset({5}))]
    with running(make, peaked_policy()) as engine:
        found = answers(engine, requests)
    for asked in requests:
        result = found[asked.id]
        *before, last = result.tokens
        expect(not asked.ends.intersection(before), "it goes on behind one of ends", request=asked, result=result)
        reason = "stop" if last in asked.ends else "length"
        expect(result.finish_reason == reason, f"the finish reason must be {reason!r}", request=asked, result=result)
        whole = reason == "stop" or len(result.tokens) == asked.limit
        expect(whole, f"it was cut before its limit of {asked.limit} tokens", request=asked, result=result)


@contract_check(KIND, "every token has a finite log-prob that is not above 0")
def log_probs(make: Make[RolloutEngine]) -> None:
    for temperature in (1.0, 0.7):
        with running(make, peaked_policy()) as engine:
            found = answers(engine, group(Sampling(temperature=temperature)))
        for result in found.values():
            expect(len(result.logprobs) == len(result.tokens), "there must be as many log-probs as tokens", result=result)
            expect(all(math.isfinite(p) and p <= 1e-6 for p in result.logprobs), "log-probs are finite and at most 0", result=result)


@contract_check(KIND, "with exact_logprobs, its log-probs are those of the trainer")
def exact(make: Make[RolloutEngine]) -> None:
    policy = peaked_policy()
    with running(make, policy) as engine:
        if not engine.exact_logprobs:
            return
        for temperature in (1.0, 0.7):
            requests = group(Sampling(temperature=temperature))
            expect_exact(policy, requests, answers(engine, requests))


@contract_check(KIND, "its log-probs are those of its temperature")
def of_temperature(make: Make[RolloutEngine]) -> None:
    """Whether or not they are exact: they are nearer to the trainer's at this temperature than at another one."""
    policy, others = peaked_policy(), (0.5, 1.0, 2.0)
    with running(make, policy) as engine:
        for temperature in others if engine.comparable_logprobs else ():
            requests = group(Sampling(temperature=temperature))
            found = answers(engine, requests)
            pairs = {other: [logprobs_of(policy, asked, found[asked.id], other) for asked in requests] for other in others}
            far = {other: float(sum((ours - theirs).abs().sum() for ours, theirs in of)) for other, of in pairs.items()}
            nearest = min(far, key=lambda other: far[other])
            expect(nearest == temperature, f"at temperature {temperature} its log-probs are those of temperature {nearest}", distance=far)


@contract_check(KIND, "top_k, top_p and min_p choose from what they leave, and log-probs stay those of the whole vocabulary")
def truncated(make: Make[RolloutEngine]) -> None:
    """The gradient needs the probability under the policy, and not under what was left of it."""
    policy = peaked_policy()
    with running(make, policy) as engine:
        for sampling in (Sampling(top_k=2), Sampling(top_p=0.6), Sampling(min_p=0.5)):
            requests = group(sampling)
            found = answers(engine, requests)
            for asked in requests:
                result = found[asked.id]
                weights = logits_of(policy, asked, result).softmax(-1)
                # a rounding of the bounds may let in what lies next to them
                kept = truncate(weights, sampling.top_k, min(1.0, sampling.top_p + 1e-3), sampling.min_p * 0.999)
                drawn = kept[torch.arange(len(kept)), result.tokens]
                expect(drawn > 0, f"a token was drawn that {sampling} leaves out", request=asked, result=result)
            if engine.exact_logprobs:
                expect_exact(policy, requests, found)


@contract_check(KIND, "tokens are drawn as often as their probability at the temperature says")
def frequencies(make: Make[RolloutEngine]) -> None:
    """The mean log-prob of many first tokens is the negative entropy, up to five standard errors."""
    policy, temperature = peaked_policy(), 0.7
    context = list(LONG)
    requests = [request(i, context, 1, Sampling(temperature=temperature)) for i in range(DRAWS)]
    with running(make, policy) as engine:
        found = answers(engine, requests)
    logprobs = (logits_of(policy, requests[0], found[0])[0] / temperature).log_softmax(-1)
    drawn = float(logprobs[[result.tokens[0] for result in found.values()]].mean())
    mean = float((logprobs.exp() * logprobs).sum())
    error = math.sqrt(float((logprobs.exp() * (logprobs - mean) ** 2).sum()) / DRAWS)
    what = f"of {DRAWS} tokens at temperature {temperature} the mean log-prob is {drawn:.3f}, expected {mean:.3f} +- {error:.3f}"
    expect(abs(drawn - mean) < 5 * error, what)


@contract_check(KIND, "at temperature 0 it takes the likeliest token")
def greedy(make: Make[RolloutEngine]) -> None:
    policy, requests = peaked_policy(), group(GREEDY)
    with running(make, policy) as engine:
        likeliest_answers(engine, policy, requests)


@contract_check(KIND, "a stop string ends a completion, and its text stays part of it")
def stop_strings(make: Make[RolloutEngine]) -> None:
    policy, stop = peaked_policy(), ("7", "3")
    requests = group(Sampling(stop=stop), limit=12)
    with running(make, policy) as engine:
        found = answers(engine, requests)
    for asked in requests:
        result = found[asked.id]
        said = policy.decode(result.tokens)
        ended = any(text in said for text in stop)
        early = any(text in policy.decode(result.tokens[:-1]) for text in stop)
        reason = "stop" if ended or result.tokens[-1] in asked.ends else "length"
        expect(not early, f"it goes on behind a stop string: {said!r}, with stop={stop}", request=asked, result=result)
        expect(result.finish_reason == reason, f"the finish reason of {said!r} must be {reason!r}, with stop={stop}", result=result)


@contract_check(KIND, "a further turn continues the whole context of its episode")
def further_turns(make: Make[RolloutEngine]) -> None:
    policy, requests = peaked_policy(), group(GREEDY, limit=3, further=True)
    with running(make, policy) as engine:
        for turn in range(3):
            requests = turn_after(requests, likeliest_answers(engine, policy, requests), further=turn < 1)
        engine.forget([asked.episode for asked in requests])


@contract_check(KIND, "after update_weights its results are those of the new weights")
def new_weights(make: Make[RolloutEngine]) -> None:
    policy, requests = peaked_policy(), group(GREEDY)
    with running(make, policy, 3) as engine:
        answers(engine, requests)
        _train(policy)
        engine.update_weights(TrainerWeights(policy), 4)
        likeliest_answers(engine, policy, requests)


@contract_check(KIND, "keys and values of an episode do not outlive the weights that made them")
def old_keys(make: Make[RolloutEngine]) -> None:
    """An episode may go on with other weights than those it began with."""
    policy, requests = peaked_policy(), group(GREEDY, limit=3, further=True)
    with running(make, policy, 3) as engine:
        requests = turn_after(requests, answers(engine, requests))
        _train(policy)
        engine.update_weights(TrainerWeights(policy), 4)
        likeliest_answers(engine, policy, requests)


@contract_check(KIND, "versions name the last weights, and their numbers add up to all tokens")
def versions(make: Make[RolloutEngine]) -> None:
    policy = peaked_policy()
    with running(make, policy, 3) as engine:
        for version in (3, 8):
            engine.update_weights(TrainerWeights(policy), version)
            for result in answers(engine, group()).values():
                total = sum(count for _, count in result.versions)
                expect(total == len(result.tokens), f"versions are of {total} tokens, and there are {len(result.tokens)}", result=result)
                expect({name for name, _ in result.versions} == {version}, f"all tokens are of version {version}", result=result)


@contract_check(KIND, "the random numbers of a request are its own")
def own_numbers(make: Make[RolloutEngine]) -> None:
    policy, requests = peaked_policy(), group(limit=8)
    with running(make, policy) as engine:
        among = answers(engine, requests)
        backwards = answers(engine, requests[::-1])
    with running(make, policy) as engine:
        alone = {asked.id: answers(engine, [asked])[asked.id] for asked in requests}
    for asked in requests:
        for where, found in {"in another order": backwards, "alone": alone}.items():
            same = found[asked.id].tokens == among[asked.id].tokens
            expect(same, f"{where}, the same request gets other tokens", among_others=among[asked.id], other=found[asked.id])


@contract_check(KIND, "requests may be added while others are under way")
def added(make: Make[RolloutEngine]) -> None:
    policy = peaked_policy()
    first, second, third = ([request(10 * k + i, LONG[: 2 + k], 2 + 4 * i, GREEDY) for i in range(3)] for k in range(3))
    with running(make, policy) as engine:
        engine.submit(first)
        engine.submit(second)
        early = {result.id: result for result in engine.results()}
        expect(bool(early), "results() gave nothing while requests were under way")
        engine.submit(third)
        asked = [*first, *second, *third]
        found = early | remaining(engine, [r for r in asked if r.id not in early])
    expect_likeliest(policy, asked, found)


@contract_check(KIND, "forget drops requests under way")
def forgotten(make: Make[RolloutEngine]) -> None:
    policy, requests = peaked_policy(), [request(i, LONG, 2 + 9 * i, further=True) for i in range(4)]
    with running(make, policy) as engine:
        for take_one in (False, True):
            engine.submit(requests)
            if take_one:
                engine.results()
            engine.forget([asked.episode for asked in requests])
            late = engine.results()
            expect(not late, "all requests were forgotten, and results() still gives some", results=late)
        again = [request(i, LONG, 3) for i in range(4)]
        expect(all(len(result.tokens) <= 3 for result in answers(engine, again).values()), "a result is of a forgotten request")


@contract_check(KIND, "without requests there are no results")
def none(make: Make[RolloutEngine]) -> None:
    with running(make, peaked_policy()) as engine:
        expect(engine.results() == [], "results() must be [] before any request")
        engine.submit([])
        expect(engine.results() == [], "results() must be [] after submit([])")
        answers(engine, group())
        expect(engine.results() == [], "results() must be [] once each request has its result")


@contract_check(KIND, "nothing starts before start, close ends what start began, and both may be called again")
def life(make: Make[RolloutEngine]) -> None:
    policy, before = peaked_policy(), _at_work()
    engine = make()
    expect(_at_work() == before, f"__init__ has started {_at_work() - before}: start them in start()")
    engine.close()
    for _ in range(2):
        try:
            engine.start()
            engine.start()
            engine.update_weights(TrainerWeights(policy), 3)
            likeliest_answers(engine, policy, group(GREEDY))
        finally:
            engine.close()
        engine.close()
        expect(_at_work() <= before, f"after close() there is still {_at_work() - before}")


@torch.no_grad()
def _train(policy: torch.nn.Module) -> None:
    """Give the policy other weights, in place."""
    for parameter, other in zip(policy.parameters(), peaked_policy(seed=1).parameters(), strict=True):
        parameter.copy_(other)


def _at_work() -> set[str]:
    threads = {f"thread {thread.ident} {thread.name}" for thread in threading.enumerate()}
    return threads | {f"process {process.pid}" for process in multiprocessing.active_children()}
