"""Episodes whose batch lacks memory are decoded again, fewer at a time, and sample the same tokens."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_workshop import rollouts_with
from lightrl_workshop.checks.continuations import peaked_policy
from torch import Tensor

from lightrl import Prompt, Rollout, TransformersEngine
from lightrl.rollout.decode.incremental import IncrementalModel

sys.path.insert(0, str(Path(__file__).parent))
from hosted_engines import Counting

PROMPTS = [Prompt(id=str(i), text="7" * (i % 3) + f"{i}=") for i in range(6)]
POLICY = peaked_policy()


def episodes(max_rows: int | None = None) -> Rollout:
    """Three turns each."""
    return rollouts_with(POLICY, TransformersEngine(12, max_rows=max_rows), Counting()).rollout(PROMPTS, 3)


@pytest.mark.parametrize(("at", "call"), [("prefill", 0), ("step", 0), ("step", 7), ("resume", 0), ("join", 0)])
@pytest.mark.parametrize("max_rows", [None, 7])
def test_episodes_that_have_begun_and_those_that_are_kept(
    monkeypatch: pytest.MonkeyPatch, at: str, call: int, max_rows: int | None
) -> None:
    expected = episodes(max_rows)
    plain, calls = getattr(IncrementalModel, at), []

    def method(self: IncrementalModel, *rest: Any) -> Tensor:
        calls.append(at)
        if len(calls) == call + 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(self, *rest)

    monkeypatch.setattr(IncrementalModel, at, method)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = episodes(max_rows)
    assert torch.equal(found.input_ids, expected.input_ids)
    assert torch.allclose(found.rollout_logprobs, expected.rollout_logprobs, atol=1e-5)
    assert all(torch.equal(found.extras[name], extra) for name, extra in expected.extras.items())
    about = [w for w in said if "max_rows" in str(w.message)]
    # rows join others only where there is a limit
    assert len(about) == int(bool(calls))
