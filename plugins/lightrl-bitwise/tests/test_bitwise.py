"""Log-probs and gradients do not depend, in any bit, on how rows are put together."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_bitwise import BitwiseEngine, BitwisePolicy
from lightrl_bitwise.sums import Rows, as_factor, gradient_unit, product, to_multiples, weighted
from split_run import TinyFamily, fitted, module, weights_hash
from torch import Tensor

from lightrl import LoraPolicy, Policy, Request, Result, Sampling, TinyPolicy
from lightrl.policy.weights import TrainerWeights

HERE = Path(__file__).parent

FAMILIES = ["llama", "mistral", "qwen2", "qwen3"]
VOCABULARY = 24


@cache
def policy(family: str) -> Policy:
    """With larger weights than those of a new one, so that what is read matters."""
    found = BitwisePolicy(TinyFamily(family)).build()
    numbers = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=numbers, dtype=parameter.dtype))
    return found


def random_row(number: int, context: int, tokens: int) -> tuple[list[int], int]:
    """The ids of a row, and how many of them are its context."""
    numbers = torch.Generator().manual_seed(number)
    return torch.randint(VOCABULARY, (context + tokens,), generator=numbers).tolist(), context


def padded(rows: list[tuple[list[int], int]], extra: int = 0) -> tuple[Tensor, Tensor]:
    """Ids and mask of rows; padding is any id."""
    width = max(len(ids) for ids, _ in rows) + extra
    ids = torch.tensor([row + [(7 * len(row)) % VOCABULARY] * (width - len(row)) for row, _ in rows])
    places = torch.arange(width)
    return ids, torch.stack([(places >= context) & (places < len(row)) for row, context in rows])


rows_strategy = st.lists(st.builds(random_row, st.integers(0, 50), st.integers(1, 9), st.integers(1, 14)), min_size=1, max_size=6)


@settings(max_examples=12, deadline=None)
@given(family=st.sampled_from(FAMILIES), rows=rows_strategy, extra=st.integers(0, 5), data=st.data())
def test_log_probs_and_gradients_are_those_of_rows_alone(
    family: str, rows: list[tuple[list[int], int]], extra: int, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    cut = data.draw(st.integers(1, len(rows)))
    one = learnt(policy(family), [rows], extra)
    mixed = [rows[i] for i in order]
    two = learnt(policy(family), [part for part in (mixed[:cut], mixed[cut:]) if part], 0)
    assert two[0] == [one[0][i] for i in order]
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(one[1], two[1], strict=True))


def learnt(of: Policy, parts: list[list[tuple[list[int], int]]], extra: int) -> tuple[list[list[float]], list[Tensor]]:
    """The log-probs of all rows, and the gradients of a sum of functions of them."""
    of.zero_grad()
    found = []
    for part in parts:
        ids, mask = padded(part, extra)
        logprobs = of(ids, mask, 0.7).logprobs
        (logprobs.exp() * logprobs).sum().backward()
        found += [row[chosen].tolist() for row, chosen in zip(logprobs, mask, strict=True)]
    return found, [parameter.grad.clone() for parameter in of.parameters() if parameter.grad is not None]


@settings(max_examples=6, deadline=None)
@given(
    family=st.sampled_from(FAMILIES),
    sampling=st.sampled_from([Sampling(), Sampling(temperature=0.7, top_k=5), Sampling(top_p=0.6), Sampling(temperature=0.0)]),
    max_rows=st.integers(1, 9),
    data=st.data(),
)
def test_the_engine_gives_the_log_probs_of_the_trainer(family: str, sampling: Sampling, max_rows: int, data: st.DataObject) -> None:
    contexts = [random_row(i, 1 + 3 * i, 0)[0] for i in range(3)]
    asked = [Request(i, contexts[i // 3], 4 + i, sampling, frozenset({1}), 11 * i, i) for i in range(9)]
    order = data.draw(st.permutations(range(9)))
    found = {result.id: result for result in answers(policy(family), [asked[i] for i in order], max_rows)}
    together = {result.id: result for result in answers(policy(family), asked, 64)}
    assert all((found[i].tokens, found[i].logprobs) == (together[i].tokens, together[i].logprobs) for i in range(9))
    ids, mask = padded([([*contexts[i // 3], *found[i].tokens], len(contexts[i // 3])) for i in range(9)])
    with torch.no_grad():
        logprobs = policy(family)(ids, mask, sampling.temperature or 1.0).logprobs
    assert [row[chosen].tolist() for row, chosen in zip(logprobs, mask, strict=True)] == [found[i].logprobs for i in range(9)]


def answers(of: Policy, requests: list[Request], max_rows: int) -> list[Result]:
    engine = BitwiseEngine(max_rows=max_rows)
    engine.start()
    engine.update_weights(TrainerWeights(of), 0)
    engine.submit(requests)
    found = list[Result]()
    while results := engine.results():
        found += results
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probs_and_gradients_are_those_of_the_model_up_to_rounding(family: str) -> None:
    plain = TinyFamily(family).build()
    plain.model.double()
    rows = [random_row(i, 2 + i, 10) for i in range(4)]
    (ours, exact), (theirs, rounded) = (learnt(of, [rows], 0) for of in (BitwisePolicy(TinyFamily(family)).build(), plain))
    assert torch.tensor(ours).sub(torch.tensor(theirs)).abs().max() < 1e-5
    for mine, other in zip(exact, rounded, strict=True):
        assert (mine - other).abs().max() <= 1e-4 * other.abs().max()


def test_recomputed_activations_change_nothing() -> None:
    rows = [random_row(i, 2 + i, 10) for i in range(4)]
    plain, again = (BitwisePolicy(TinyFamily("qwen3")).build() for _ in range(2))
    again.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for mine, theirs in zip(learnt(plain, [rows], 0)[1], learnt(again, [rows], 0)[1], strict=True):
        assert torch.equal(mine, theirs)


@given(st.integers(0, 1000), st.integers(1, 40), st.integers(1, 40))
def test_sums_have_no_order(seed: int, rows: int, terms: int) -> None:
    numbers = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(rows, terms, generator=numbers, dtype=torch.float64).exp() for _ in range(2))
    order = torch.randperm(terms, generator=numbers)
    assert torch.equal(product(left, right), product(left[:, order], right[:, order]))
    memory = Rows.of(right.mT, 64)
    longer = Rows.of(torch.cat([right.mT, torch.zeros(5, rows, dtype=torch.float64)]), 64)
    assert torch.equal(weighted(left, memory), weighted(torch.nn.functional.pad(left, (0, 5), value=9.0), longer))


def test_rounding_by_hand() -> None:
    numbers = torch.tensor([1.0, 0.3, -0.26], dtype=torch.float64)
    assert to_multiples(numbers, 0.125).tolist() == [1.0, 0.25, -0.25]
    # two terms leave 26 bits - 1 for each factor: 1.0 and 2^-24 are kept, and 2^-26 is not
    assert as_factor(torch.tensor([[1.0, 2.0**-24]], dtype=torch.float64)).tolist() == [[1.0, 2.0**-24]]
    assert as_factor(torch.tensor([[1.0, 2.0**-26]], dtype=torch.float64)).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("function", [torch.exp, torch.log, torch.sqrt, torch.cos, torch.sin])
def test_functions_of_torch_give_a_number_the_same_value_at_every_place(function: object) -> None:
    numbers = torch.rand(4099, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 20
    for dtype in (torch.float64, torch.float32):
        whole = function(numbers.to(dtype))  # type: ignore[operator]
        alone = torch.stack([function(number) for number in numbers.to(dtype)])  # type: ignore[operator]
        shifted = function(numbers.to(dtype)[3:].clone())  # type: ignore[operator]
        assert torch.equal(whole, alone)
        assert torch.equal(whole[3:], shifted)


def test_what_is_not_computed_is_refused() -> None:
    with pytest.raises(ValueError, match="of the type gemma, and computed are llama, mistral, qwen2, qwen3"):
        BitwisePolicy(TinyFamily("gemma")).build()
    with pytest.raises(ValueError, match="name its own base"):
        BitwisePolicy(LoraPolicy(TinyPolicy())).build()
    with pytest.raises(ValueError, match="strategy auto or ddp"):
        BitwisePolicy(TinyPolicy()).build_lazy()
    with pytest.raises(ValueError, match="needs values"):
        policy("llama")(*padded([random_row(0, 2, 3)]), critic=torch.nn.Identity())
    with pytest.raises(ValueError, match="it has adapters"):
        BitwiseEngine().update_weights(TrainerWeights(LoraPolicy(TinyPolicy()).build()), 0)


def test_runs_in_other_micro_batches_and_engine_batches_and_with_a_resume_have_one_hash(tmp_path: Path) -> None:
    whole = module("qwen3", None, 64)
    fitted(whole, 2)
    assert whole.numbers["ratio/first_pass_deviation"] == 0.0
    fitted(module("qwen3", 90, 5), 1).save_checkpoint(tmp_path / "first.ckpt")
    resumed = module("qwen3", 90, 5)
    fitted(resumed, 2, checkpoint=tmp_path / "first.ckpt")
    assert weights_hash(resumed.learner.policy) == weights_hash(whole.learner.policy)
    assert weights_hash(resumed.learner.policy) != weights_hash(module("qwen3", None, 64).learner.source.build())


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["llama", pytest.param("qwen2", marks=pytest.mark.rare)])
def test_two_ranks_have_the_hash_of_one(family: str, tmp_path: Path) -> None:
    hashes = {started(family, *split, tmp_path) for split in ((1, 2048, 64, 0), (2, 300, 7, 0))}
    assert len(hashes) == 1, hashes


def started(family: str, devices: int, tokens: int, rows: int, first: int, folder: Path) -> str:
    command = [
        sys.executable,
        str(HERE / "split_run.py"),
        family,
        *(str(number) for number in (devices, tokens, rows, first, 4)),
        str(folder),
    ]
    own = {name: value for name, value in os.environ.items() if name != "PL_GLOBAL_SEED"}
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("weights ")[-1].strip()


def test_three_ranks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    with pytest.raises(ValueError, match="a power of two, got 3"):
        gradient_unit()
