"""Rows without padding that share their prompt give the log-probs, values and gradients of plain rows."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from lightrl import Entropy, Policy, PolicyOutput, TinyPolicy
from lightrl.policy import packed_trunk
from lightrl.policy.adapted import AdaptedPolicy
from lightrl.policy.reward_network import RewardNetwork
from lightrl.policy.tiny import ALPHABET, character_tokenizer

NAMES: dict[str, Any] = {"vocab_size": 24, "eos_token_id": 1, "bos_token_id": None, "pad_token_id": 0}
BLOCKS: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 4, "max_position_embeddings": 64, **NAMES,
}  # fmt: skip

MODELS: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**BLOCKS)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**BLOCKS)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**BLOCKS)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=64, **NAMES)),
    "gemma": lambda: GemmaForCausalLM(GemmaConfig(**BLOCKS)),
    "a window in every layer": lambda: MistralForCausalLM(MistralConfig(sliding_window=6, **BLOCKS)),
    "a window in some layers": lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(sliding_window=6, layer_types=["sliding_attention", "full_attention"], **BLOCKS)
    ),
}


def policy(name: str, dtype: torch.dtype = torch.float64) -> Policy:
    torch.manual_seed(0)
    return Policy(MODELS[name]().to(dtype), character_tokenizer(ALPHABET, 64))


def groups() -> tuple[Tensor, Tensor]:
    """Ids and mask: groups of one, three and four rows with prompts of 18, 9 and 25 tokens, some with a second turn, one never sampled."""
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(2, 24, (9, 48), generator=random)
    position = torch.arange(48)
    mask = torch.zeros(9, 48, dtype=torch.bool)
    for rows, prompt in (([0], 18), ([1, 4, 7], 9), ([2, 3, 5, 6], 25)):
        ids[rows, :prompt] = ids[rows[0], :prompt]
        for row in rows:
            stop = prompt + 1 + int(torch.randint(22, (1,), generator=random))
            mask[row] = (position >= prompt) & (position < stop) & (position % 9 != 7)
    # two rows whose first turn is the same, and what the environment answered
    ids[3, :34] = ids[2, :34]
    return ids, mask


class Values(nn.Module):
    """A critic on the hidden states."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 1, dtype=torch.float64)

    def forward(self, input_ids: Tensor, hidden: Tensor) -> Tensor:
        return self.linear(hidden)[..., 0]


def both(subject: Policy, critic: nn.Module | None = None) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and gradients, of packed rows and of plain ones."""
    ids, mask = groups()
    found = []
    for longest in (subject.longest_packed, 0):
        one = copy.deepcopy(subject)
        head = copy.deepcopy(critic)
        one.longest_packed = longest
        out: PolicyOutput = one(ids, mask, temperature=0.7, outputs={"entropy": Entropy().compute}, critic=head)
        outputs = [value for value in (out.logprobs, out.outputs["entropy"], out.values) if value is not None]
        weights = torch.linspace(0.1, 1.0, mask.numel(), dtype=out.logprobs.dtype).view(mask.shape)
        torch.stack([(value * weights).sum() for value in outputs]).sum().backward()
        learnt = [*one.parameters(), *(head.parameters() if head else [])]
        found.append([*(value.detach() for value in outputs), *(p.grad for p in learnt if p.grad is not None)])
    return found[0], found[1]


def apart(packed: list[Tensor], plain: list[Tensor]) -> float:
    assert len(packed) == len(plain)
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-3)) for a, b in zip(packed, plain, strict=True))


@pytest.mark.parametrize("name", list(MODELS))
def test_outputs_and_gradients_are_those_of_plain_rows(name: str) -> None:
    subject = policy(name)
    assert subject.longest_packed >= 64
    # some norms and rotations are computed in float32, whatever the weights are
    assert apart(*both(subject)) <= (1e-10 if name == "gpt2" else 1e-6)


def test_in_float32_they_differ_by_rounding() -> None:
    assert apart(*both(policy("llama", torch.float32))) <= 5e-6


def test_layers_that_are_computed_again_in_the_backward_pass_find_the_rows() -> None:
    subject = policy("gpt2")
    plain = both(subject)[1]
    subject.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    subject.train()
    assert apart(both(subject)[0], plain) <= 1e-10


def test_a_critic_reads_the_hidden_states_of_its_rows() -> None:
    subject, critic = policy("gpt2"), Values(16)
    assert apart(*both(subject, critic)) <= 1e-10
    ids, mask = groups()
    alone = subject.values(ids, mask, critic)
    subject.longest_packed = 0
    assert torch.allclose(alone, subject.values(ids, mask, critic), rtol=0, atol=1e-10)


def test_adapters_learn_the_same() -> None:
    subject = policy("llama")
    config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    adapted = AdaptedPolicy(get_peft_model(subject.model, config), subject.tokenizer).double()
    assert adapted.longest_packed
    assert apart(*both(adapted)) <= 1e-6
    ids, mask = groups()
    with adapted.base():
        packed = adapted(ids, mask).logprobs
        adapted.longest_packed = 0
        assert torch.allclose(packed, adapted(ids, mask).logprobs, rtol=0, atol=1e-6)


def test_a_reward_network_scores_the_same() -> None:
    network = RewardNetwork(policy("gpt2"))
    ids, _ = groups()
    last = torch.tensor([47, 20, 3, 40, 0, 30, 46, 9, 11])
    packed = network(ids, last)
    network.longest_packed = 0
    assert torch.allclose(packed, network(ids, last), rtol=0, atol=1e-6)


def test_a_rank_without_tokens_has_gradients_of_0() -> None:
    subject = policy("llama")
    subject(torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 2, dtype=torch.bool)).logprobs.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in subject.parameters())


@settings(max_examples=20)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=6), st.integers(0, 2**16))
def test_rows_have_no_influence_on_each_other(sizes: list[int], seed: int) -> None:
    lengths, random = torch.tensor(sizes), torch.Generator().manual_seed(seed)
    ids = torch.randint(2, 24, (len(sizes), max(sizes)), generator=random)
    mask = (torch.arange(max(sizes)) < lengths[:, None]) & (torch.arange(max(sizes)) > 0)
    kept = int(torch.randint(len(sizes), (1,), generator=random))
    others = torch.randint(2, 24, ids.shape, generator=random)
    others[kept] = ids[kept]
    with torch.no_grad():
        one, other = SUBJECT(ids, mask).logprobs, SUBJECT(others, mask).logprobs
    assert torch.equal(one[kept], other[kept])


SUBJECT = TinyPolicy(hidden=16, layers=2, heads=2, dtype="float64").build()


def test_rows_beyond_a_window_that_the_layers_do_not_hand_on_are_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["llama"]().double()
    model.config.sliding_window = 24
    subject = Policy(model, character_tokenizer(ALPHABET, 64))
    assert subject.longest_packed == 24
    seen: list[int] = []
    real = packed_trunk.packed_hidden
    monkeypatch.setattr(packed_trunk, "packed_hidden", lambda trunk, rows, steered: (seen.append(len(rows)), real(trunk, rows, steered))[1])
    ids = torch.randint(2, 24, (2, 30))
    mask = torch.arange(30).expand(2, 30) > 4
    subject(ids, mask)
    assert not seen
    subject(ids[:, :20], mask[:, :20])
    assert seen


def test_a_model_that_keeps_a_state_runs_plain_rows_and_says_so() -> None:
    model = MambaForCausalLM(MambaConfig(hidden_size=16, num_hidden_layers=1, state_size=4, **NAMES))
    with pytest.warns(UserWarning, match="MambaForCausalLM runs rows one beside the other"):
        assert Policy(model, character_tokenizer(ALPHABET, 64)).longest_packed == 0


def test_a_model_that_forgets_where_rows_begin_runs_plain_rows_and_says_so() -> None:
    model = MODELS["llama"]()
    inner = model.base_model.forward
    model.base_model.forward = lambda *a, position_ids=None, **k: inner(*a, **k)
    with pytest.warns(UserWarning, match="LlamaForCausalLM .* differ from those of plain rows"):
        assert Policy(model, character_tokenizer(ALPHABET, 64)).longest_packed == 0


def test_a_deep_model_whose_layers_enlarge_rounding_is_packed(recwarn: pytest.WarningsRecorder) -> None:
    policy = TinyPolicy(hidden=32, layers=24, heads=2).build()
    for name, weight in policy.model.named_parameters():
        if "q_proj" in name or "k_proj" in name:
            weight.data.mul_(30)
    packed = Policy(policy.model, policy.tokenizer)
    assert packed.longest_packed
    assert not [warning for warning in recwarn if "one beside the other" in str(warning.message)]


def test_eager_attention_runs_plain_rows_and_says_so() -> None:
    config = LlamaConfig(**BLOCKS)
    config._attn_implementation = "eager"
    with pytest.warns(UserWarning, match="its attention is eager"):
        assert Policy(LlamaForCausalLM(config), character_tokenizer(ALPHABET, 64)).longest_packed == 0


def test_a_lack_of_memory_is_no_sign_of_a_model_that_cannot_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("lightrl.policy.packed_trunk.packed_hidden", full)
    with pytest.raises(torch.OutOfMemoryError):
        policy("llama")


def test_a_model_that_packs_says_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy("qwen3")
