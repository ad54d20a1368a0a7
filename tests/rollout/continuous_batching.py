"""A rollout engine that is not ours: the continuous batching of transformers, a witness that others can fulfil the contract."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
from collections.abc import Collection, Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig

from lightrl import PolicyWeights, Request, Result, Sampling, hookimpl
from lightrl.parts.engine import RolloutEngine

ADDED = {
    "max_requests_per_batch": "before transformers 5.11 no other limit than that on the tokens",
    "auto_switch_to_flash": "before 5.19 the attention that was asked for stayed",
    "seed": "before 5.9 torch's global generator was left as it was",
}
"""Settings that are passed over where they are unknown, and what was done without them."""


def settings(cls: type[Any], **wanted: Any) -> Any:
    """The settings of continuous batching in any version of transformers; before 5.18 a page was a block.

    Raises:
        ValueError: this version has not what an engine of ours needs; named here when a run starts.
    """
    known = {field.name for field in dataclasses.fields(cls)}
    if "page_size" not in known:
        wanted["block_size"] = wanted.pop("page_size")
    given = {name: value for name, value in wanted.items() if name in known or name not in ADDED}
    if missing := sorted(set(given) - known):
        raise ValueError(f"continuous batching of this transformers has no {', '.join(missing)}")
    return cls(**given)


def stop(manager: Any) -> None:
    """End a manager at once, with what it has under way; before transformers 5.11 it finished that, and had nothing else to give back."""
    if "hard_stop" in inspect.signature(manager.stop).parameters:
        manager.stop(block=True, hard_stop=True)
        manager.destroy()
    else:
        manager.stop(block=True)


class ContinuousBatchingEngine(RolloutEngine):
    """Continues contexts with paged attention, in threads, with a copy of the policy's model.

    One thread draws and another takes the likeliest tokens; random numbers are those of torch's global generator.
    """

    exact_logprobs = True
    exceptions = {
        "the random numbers of a request are its own": "continuous batching has one seed for all requests",
        "top_k, top_p and min_p choose from what they leave, and log-probs stay those of the whole vocabulary": (
            "its log-probs are those of processed logits, so that it refuses to truncate"
        ),
        "a stop string ends a completion, and its text stays part of it": "continuous batching ends at token ids, so that it refuses texts",
    }

    def __init__(self, max_new_tokens: int = 16, temperature: float = 1.0, seed: int = 0, timeout_s: float = 30.0) -> None:
        """
        Args:
            max_new_tokens: limit on the tokens of a completion, EOS included.
            temperature: divides the logits.
            seed: of the random numbers of all requests.
            timeout_s: seconds without a result after which the engine gives up.
        """
        self.sampling, self.seed, self.timeout_s = Sampling(max_new_tokens, temperature), seed, timeout_s
        self._model: Any = None
        self._version = 0
        self._managers: dict[bool, Any] = {}
        self._names = itertools.count()
        self._under_way: dict[str, Request] = {}

    def close(self) -> None:
        for greedy, manager in self._managers.items():
            for name in [name for name, request in self._under_way.items() if (request.sampling.temperature == 0) == greedy]:
                manager.cancel_request(name)
            stop(manager)
        self._managers.clear()
        self._under_way.clear()

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        if self._model is None:
            config = copy.deepcopy(weights.policy.model.config)
            with torch.random.fork_rng(devices=[]):
                self._model = AutoModelForCausalLM.from_config(config, attn_implementation="paged|eager")
        own = self._model.state_dict()
        for name, tensor in weights.tensors():
            own[name].copy_(tensor)
        self._version = version

    def submit(self, requests: Sequence[Request]) -> None:
        for request in requests:
            sampling = request.sampling
            if sampling.stop or (sampling.top_p, sampling.top_k, sampling.min_p) != (1.0, 0, 0.0):
                raise ValueError(f"ContinuousBatchingEngine takes neither stop nor top_p, top_k or min_p, got {sampling}")
            name = str(next(self._names))
            self._under_way[name] = request
            warmth = {"temperature": float(sampling.temperature)} if sampling.temperature else {}
            self._manager(greedy=not warmth).add_request(
                list(request.context), request_id=name, max_new_tokens=request.limit, eos_token_id=sorted(request.ends), **warmth
            )

    def results(self) -> list[Result]:
        waited = 0.0
        while self._under_way:
            for greedy, manager in self._managers.items():
                if not any((request.sampling.temperature == 0) == greedy for request in self._under_way.values()):
                    continue
                output = manager.get_result(timeout=0.05)
                # those that were forgotten may come late
                if output is not None and output.request_id in self._under_way:
                    return [self._result(output)]
                waited += 0.05
            if waited > self.timeout_s:
                raise RuntimeError(f"continuous batching gave no result within {self.timeout_s:g} s; {len(self._under_way)} requests wait")
        return []

    def forget(self, episodes: Collection[int]) -> None:
        for name in [name for name, request in self._under_way.items() if request.episode in episodes]:
            request = self._under_way.pop(name)
            self._managers[request.sampling.temperature == 0].cancel_request(name)

    def _manager(self, greedy: bool) -> Any:
        if greedy not in self._managers:
            # a temperature other than 1 lets each request bring its own
            drawn = {"do_sample": False} if greedy else {"do_sample": True, "temperature": 0.5, "top_p": 1.0, "top_k": 0}
            generation = GenerationConfig(max_new_tokens=16, eos_token_id=-1, **drawn)
            sizes = settings(
                ContinuousBatchingConfig,
                num_blocks=256,
                page_size=16,
                max_batch_tokens=256,
                max_requests_per_batch=64,
                # keys and values must not outlive the weights
                allow_block_sharing=False,
                return_logprobs=True,
                per_request_processors=True,
                auto_switch_to_flash=False,
                seed=self.seed,
            )
            self._managers[greedy] = self._model.init_continuous_batching(generation, sizes)
            self._managers[greedy].start()
        return self._managers[greedy]

    def _result(self, output: Any) -> Result:
        request = self._under_way.pop(output.request_id)
        if output.error is not None:
            raise RuntimeError(f"continuous batching failed at request {request.id}: {output.error}")
        tokens = list(output.generated_tokens)
        reason = "stop" if tokens[-1] in request.ends else "length"
        return Result(request.id, tokens, list(output.logprobs), reason, ((self._version, len(tokens)),), len(request.context))


@hookimpl
def lightrl_engines() -> list[type[RolloutEngine]]:
    """As a package would register it."""
    return [ContinuousBatchingEngine]
