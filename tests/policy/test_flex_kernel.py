"""Flex attention of packed rows has a bounded number of versions and is tried before use; here a CPU is said to have a kernel."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from lightrl import Policy, ValueModel
from lightrl.policy import packed_trunk
from lightrl.policy.tiny import ALPHABET, character_tokenizer

FLEX = sys.modules["torch.nn.attention.flex_attention"]


def policy(heads: int = 4, layers: int = 1, window: int | None = None) -> Policy:
    torch.manual_seed(heads)
    kind, config = (
        (LlamaForCausalLM, LlamaConfig) if window is None else (MistralForCausalLM, partial(MistralConfig, sliding_window=window))
    )
    model = kind(
        config(
            vocab_size=24, hidden_size=16, intermediate_size=32, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=2,
            head_dim=8, max_position_embeddings=512, eos_token_id=1, bos_token_id=None, pad_token_id=0,
            **({} if window is None else {"sliding_window": window}),
        )
    )  # fmt: skip
    return Policy(model, character_tokenizer(ALPHABET, 512))


def rows(number: int) -> tuple[Tensor, Tensor]:
    """Ids and mask of a micro-batch of any size: two groups whose rows share a prompt."""
    random = torch.Generator().manual_seed(number)
    count, width = (int(torch.randint(*bounds, (1,), generator=random)) for bounds in ((1, 9), (20, 90)))
    ids = torch.randint(2, 24, (count, width), generator=random)
    ids[::2, : width // 2] = ids[0, : width // 2].clone()
    mask = torch.arange(width).expand(count, width) >= width // 2
    return ids, mask


@pytest.fixture
def with_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU takes flex attention, gradients included."""
    monkeypatch.setattr(packed_trunk, "_has_kernel", lambda query: True)
    monkeypatch.setattr(FLEX, "_validate_device", lambda *states: None)
    if torch.cuda.is_available():
        # tensors that have a kernel have a device that is in use; else the compiler would be the first, inside a layer to be computed again
        torch.cuda.init()


@pytest.fixture
def graphs(with_kernel: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The graphs that are compiled; each runs as it is."""
    made: list[Any] = []
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=lambda graph, inputs: (made.append(graph), graph.forward)[1]))
    # beyond the limit nothing would be compiled, and everything run unfused
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        yield made


def learn(subject: Policy, ids: Tensor, mask: Tensor, critic: Any = None) -> list[Tensor]:
    """Log-probs, values and gradients."""
    out = subject(ids, mask, critic=critic)
    values = [out.logprobs] if out.values is None else [out.logprobs, out.values]
    torch.stack([value.square().sum() for value in values]).sum().backward()
    learnt = [*subject.parameters(), *(critic.parameters() if critic else [])]
    gradients = [parameter.grad for parameter in learnt if parameter.grad is not None]
    for parameter in learnt:
        parameter.grad = None
    return [*(value.detach() for value in values), *gradients]


def test_b3_forty_micro_batches_of_four_trunks_compile_five_versions_and_no_more(
    graphs: list[Any], recwarn: pytest.WarningsRecorder
) -> None:
    learner, teacher, another = policy(), policy(heads=8), policy(heads=16)
    reference = copy.deepcopy(learner).requires_grad_(False)
    critic = ValueModel().build(learner)
    counts = []
    for number in range(40):
        ids, mask = rows(number)
        learn(learner, ids, mask, critic)
        with torch.no_grad():
            # old log-probs, reference and teachers
            for other in (learner, reference, teacher, another):
                other(ids, mask)
        counts.append(len(graphs))
    # the policy with gradients, and all of them without; the critic's trunk runs padded rows
    assert counts[-1] == 5
    assert not [str(w.message) for w in recwarn if "attention" in str(w.message)]


@pytest.mark.parametrize("window", [None, 20])
def test_outputs_and_gradients_are_those_of_plain_attention(graphs: list[Any], monkeypatch: pytest.MonkeyPatch, window: int | None) -> None:
    subject = policy(layers=2, window=window)
    ids, mask = rows(3)
    found = learn(subject, ids, mask)
    assert graphs
    monkeypatch.setattr(packed_trunk, "_has_kernel", lambda query: False)
    for ours, plain in zip(found, learn(subject, ids, mask), strict=True):
        assert float((ours - plain).abs().max()) <= 1e-5 * float(plain.abs().max())


def test_layers_that_are_computed_again_do_not_see_the_trial(graphs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    subject = policy(layers=2)
    subject.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    subject.train()
    ids, mask = rows(3)
    found = learn(subject, ids, mask)
    assert graphs
    monkeypatch.setattr(packed_trunk, "_has_kernel", lambda query: False)
    for ours, plain in zip(found, learn(subject, ids, mask), strict=True):
        assert float((ours - plain).abs().max()) <= 1e-5 * float(plain.abs().max())


def no_compiler(*inputs: object, **settings: object) -> Tensor:
    raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable")


def wrong(query: Tensor, key: Tensor, value: Tensor, **settings: object) -> Tensor:
    return query * 0.5


@pytest.mark.parametrize(("stub", "said"), [(no_compiler, "C compiler"), (wrong, "differ")])
def test_b4_where_flex_attention_does_not_work_a_warning_says_why_and_rows_run_the_plain_way(
    with_kernel: None, monkeypatch: pytest.MonkeyPatch, stub: Callable[..., Tensor], said: str
) -> None:
    subject = policy()
    ids, mask = rows(3)
    monkeypatch.setattr(torch, "compile", lambda function, **settings: lambda q, k, v, *rest, **names: stub(q, k, v))
    with pytest.warns(UserWarning, match=said):
        found = learn(subject, ids, mask)
    with warnings.catch_warnings():
        # it is tried once
        warnings.simplefilter("error", UserWarning)
        again = learn(subject, ids, mask)
    monkeypatch.setattr(packed_trunk, "_has_kernel", lambda query: False)
    for ours, later, plain in zip(found, again, learn(subject, ids, mask), strict=True):
        assert torch.equal(ours, plain)
        assert torch.equal(later, plain)


def test_a_lack_of_memory_is_no_missing_kernel(with_kernel: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*inputs: object) -> Tensor:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(torch, "compile", lambda function, **settings: full)
    with pytest.raises(torch.OutOfMemoryError):
        learn(policy(), *rows(3))


def test_beyond_the_last_version_rows_run_the_plain_way(graphs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from lightrl.policy import flex_kernel

    monkeypatch.setattr(flex_kernel, "VERSIONS", 1)
    subject = policy()
    ids, mask = rows(3)
    learn(subject, ids, mask)
    with torch.no_grad(), pytest.warns(UserWarning, match="flex attention does not work"):
        subject(ids, mask)
    assert len(graphs) == 1
