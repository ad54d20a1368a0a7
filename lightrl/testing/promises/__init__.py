"""What every class of a kind promises, one file per kind; importing this registers them all."""

from lightrl.testing.promises import (
    advantage,
    aggregation,
    algorithm,
    clip,
    common,
    critic,
    engine,
    kl,
    loss_term,
    ratio,
    reference,
    reward,
    sampler,
    sources,
    weights,
)
from lightrl.testing.promises.promise import PROMISES, BrokenPromise, Make, Promise, promise

__all__ = [
    "PROMISES",
    "BrokenPromise",
    "Make",
    "Promise",
    "advantage",
    "aggregation",
    "algorithm",
    "clip",
    "common",
    "critic",
    "engine",
    "kl",
    "loss_term",
    "promise",
    "ratio",
    "reference",
    "reward",
    "sampler",
    "sources",
    "weights",
]
