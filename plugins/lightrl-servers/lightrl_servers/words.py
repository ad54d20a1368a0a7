"""Names that a kind of server has for its options and fields, for messages that say what to type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """The names of one kind of server. Sentences have no full stop at their end."""

    limit: str
    """The field of a request that limits its tokens."""
    seed: str
    """The field of a request that is the key of its random numbers."""
    positions: str
    """The option that sets how many tokens a row may have."""
    no_route: str
    """Advice where the route for tokens is missing."""
    no_seeds: str
    """Advice where seeds have no effect; empty if nothing is known."""
    aborted: str
    """Why a completion may have been ended from outside."""
    tempered: str
    """How to start a server whose log-probs are those of the temperature."""
    comparable: str
    """How to start a server whose log-probs are log-softmax(logits / temperature) over the whole vocabulary."""
    other_weights: str
    """Where to look if the weights of a server are not those of the policy."""
    modes: Mapping[tuple[bool, bool], str]
    """The server's name for log-probs, by `Meaning.tempered` and `Meaning.renormalized`."""
    open_routes: str
    """Routes that pause a server and change its weights."""
    guarded: bool
    """The key of a server guards these routes too."""
