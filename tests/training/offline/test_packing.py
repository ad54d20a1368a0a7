"""Texts in one row do not see each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel, MambaConfig, MambaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from lightrl import Policy, TinyPolicy
from lightrl.policy.characters import ALPHABET, character_tokenizer
from lightrl.training.offline.packing import packed_logprobs, refuse_leaking

SMALL: dict[str, Any] = {"vocab_size": 24, "eos_token_id": 1, "bos_token_id": None, "pad_token_id": 0}


def qwen(window: int | None = None, attention: str = "sdpa") -> Any:
    config = Qwen2Config(
        hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        use_sliding_window=window is not None, sliding_window=window, max_window_layers=0, **SMALL,
    )  # fmt: skip
    config._attn_implementation = attention
    return Qwen2ForCausalLM(config)


MODELS = {
    "llama": lambda: TinyPolicy(hidden=16, layers=2, heads=2).build().model,
    "qwen2": qwen,
    "qwen2 eager": lambda: qwen(attention="eager"),
    "qwen2 sliding window": lambda: qwen(window=3),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=64, **SMALL)),
}


def policy(name: str) -> Policy:
    torch.manual_seed(0)
    return Policy(MODELS[name]().double(), character_tokenizer(ALPHABET, 64))


@pytest.mark.parametrize("name", list(MODELS))
def test_a_packed_text_has_the_log_probs_and_the_gradient_it_has_alone(name: str) -> None:
    subject = policy(name)
    refuse_leaking(subject)
    lengths = torch.tensor([5, 9, 1, 2, 7])
    ids = torch.randint(2, 24, (5, 9), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(9) < lengths[:, None]) & (torch.arange(9) > 0) & (torch.arange(9) != 3)
    found = {}
    for packed in (False, True):
        subject.zero_grad()
        logprobs = packed_logprobs(subject, ids, mask, lengths) if packed else subject(ids, mask).logprobs
        logprobs.square().sum().backward()
        found[packed] = [logprobs.detach(), *(p.grad.clone() for p in subject.parameters() if p.grad is not None)]
    # eager attention has its softmax in float32 whatever the weights are
    tolerance = 1e-6 if "eager" in name else 1e-10
    assert all(float((a - b).abs().max()) <= tolerance for a, b in zip(found[False], found[True], strict=True))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=6), st.integers(0, 2**16))
def test_neighbours_have_no_influence(sizes: list[int], seed: int) -> None:
    subject = SUBJECT
    lengths, random = torch.tensor(sizes), torch.Generator().manual_seed(seed)
    ids = torch.randint(2, 24, (len(sizes), max(sizes)), generator=random)
    mask = (torch.arange(max(sizes)) < lengths[:, None]) & (torch.arange(max(sizes)) > 0)
    kept = int(torch.randint(len(sizes), (1,), generator=random))
    others = torch.randint(2, 24, ids.shape, generator=random)
    others[kept] = ids[kept]
    with torch.no_grad():
        one, other = packed_logprobs(subject, ids, mask, lengths), packed_logprobs(subject, others, mask, lengths)
    assert torch.equal(one[kept], other[kept])


SUBJECT = policy("llama")


def test_a_model_that_mixes_texts_is_refused() -> None:
    torch.manual_seed(0)
    state_space = MambaForCausalLM(MambaConfig(hidden_size=16, num_hidden_layers=1, state_size=4, **SMALL))
    with pytest.raises(ValueError, match=r"model\.packing: MambaForCausalLM .*false"):
        refuse_leaking(Policy(state_space, character_tokenizer(ALPHABET, 64)))


def test_a_model_that_forgets_where_texts_begin_is_refused() -> None:
    subject = policy("llama")
    inner = subject.model.base_model.forward
    subject.model.base_model.forward = lambda *a, position_ids=None, **k: inner(*a, **k)
    with pytest.raises(ValueError, match="text"):
        refuse_leaking(subject)
