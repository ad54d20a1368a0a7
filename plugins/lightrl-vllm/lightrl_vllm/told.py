"""Facts about the servers that a user should know before the first rollout."""

from __future__ import annotations

from collections.abc import Mapping

from lightrl import Sampling
from lightrl_vllm.probes import Meaning

HERE = ("http://127.0.0.1:", "http://localhost:", "http://[::1]:")
"""Addresses that only this machine reaches."""


def warnings_of(meanings: Mapping[str, Meaning], sampling: Sampling, keyed: bool) -> list[str]:
    """Sentences for the log.

    Args:
        meanings: of log-probs, by address.
        sampling: of training rollouts.
        keyed: the servers want a key.
    """
    open_routes = [
        f"{address}: no key guards the routes that pause a server and change its weights (/pause, /collective_rpc, ...): whoever reaches "
        "it can call them. Keep it in a private network"
        for address in meanings
        if keyed or not address.startswith(HERE)
    ]
    others = [
        f"{address}: its log-probs are {meaning}. At {sampling} that is not log-softmax(logits / temperature) over the whole vocabulary, "
        "so the trainer computes its own; tokens are sampled as asked. Without top_p, top_k and min_p start it with --logprobs-mode "
        "processed_logprobs; with them, at temperature 1, with raw_logprobs"
        for address, meaning in meanings.items()
        if not meaning.is_ours(sampling)
    ]
    return open_routes + others
