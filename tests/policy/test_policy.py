"""A policy gives the log-probs of sampled tokens, whatever model is underneath, and says clearly what it cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from lightrl import Entropy, Policy, PretrainedPolicy, Prompt, TinyPolicy
from lightrl.policy.tiny import ALPHABET, character_tokenizer

SMALL: dict[str, Any] = {
    "vocab_size": 24, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1,
}  # fmt: skip
MODELS: dict[str, Any] = {
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SMALL)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=24, n_embd=16, n_layer=2, n_head=2, n_positions=64, eos_token_id=1)),
    "gemma2": lambda: Gemma2ForCausalLM(Gemma2Config(**SMALL, head_dim=8, final_logit_softcapping=3.0)),
    "cohere": lambda: CohereForCausalLM(CohereConfig(**{**SMALL, "logit_scale": 0.25})),
    "granite": lambda: GraniteForCausalLM(GraniteConfig(**SMALL, logits_scaling=4.0)),
}


def policy_of(name: str) -> Policy:
    torch.manual_seed(0)
    model = MODELS[name]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return Policy(model.train(), character_tokenizer(ALPHABET, 64))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probs_entropy_and_gradients_are_those_of_the_models_own_logits(name: str, temperature: float) -> None:
    policy = policy_of(name)
    assert policy._chunked, "the head should be recognised, or memory goes up a hundredfold"
    ids = torch.randint(2, 24, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.zeros(3, 9, dtype=torch.bool)
    mask[0, 2:5], mask[1, 1:], mask[2, 8] = True, True, True
    output = policy(ids, mask, temperature, {"entropy": Entropy().compute})
    logq = (policy.model(ids).logits / temperature).log_softmax(-1)
    expected = torch.zeros(3, 9).index_put(
        (mask.nonzero()[:, 0], mask.nonzero()[:, 1]),
        torch.stack([logq[i, t - 1, ids[i, t]] for i, t in mask.nonzero().tolist()]),
    )
    assert torch.allclose(output.logprobs, expected, atol=1e-5)
    entropies = torch.stack([-(logq[i, t - 1].exp() * logq[i, t - 1]).sum() for i, t in mask.nonzero().tolist()])
    assert torch.allclose(output.outputs["entropy"][mask], entropies, atol=1e-5)

    def gradients(value: torch.Tensor) -> list[torch.Tensor]:
        policy.zero_grad()
        value.backward(retain_graph=True)
        return [p.grad.clone() for p in policy.parameters() if p.grad is not None]

    ours = gradients(output.logprobs.sum() + output.outputs["entropy"].square().sum())
    theirs = gradients(expected.sum() + entropies.square().sum())
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-5 * float(b.abs().max()) + 1e-6)


def test_dropout_is_off_so_that_the_ratio_of_an_unchanged_policy_is_1() -> None:
    policy = policy_of("gpt2")
    assert policy.model.training
    ids, mask = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[False, True, True, True]])
    assert torch.equal(policy(ids, mask).logprobs, policy(ids, mask).logprobs)


def test_a_head_that_does_more_falls_back_to_full_logits_and_says_so() -> None:
    class Shifted(LlamaForCausalLM):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            out = super().forward(*args, **kwargs)
            out.logits = out.logits * torch.linspace(0, 9, out.logits.shape[-1])
            return out

    config = TinyPolicy(hidden=16, layers=1, heads=2).config()
    model = Shifted(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5)
    with pytest.warns(UserWarning, match="logits"):
        policy = Policy(model, character_tokenizer(ALPHABET, 64))
    ids = torch.tensor([[3, 4, 5]])
    logq = policy.model(ids).logits.log_softmax(-1)
    logprobs = policy(ids, torch.tensor([[False, True, True]])).logprobs
    assert torch.allclose(logprobs[0, 1:], torch.stack([logq[0, 0, 4], logq[0, 1, 5]]), atol=1e-6)


def test_padding_on_the_right_changes_nothing() -> None:
    policy = TinyPolicy(hidden=16, layers=2, heads=2).build()
    ids, mask = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[False, True, True, True]])
    wide = torch.cat([ids, torch.tensor([[9, 1, 0]])], 1)
    wide_mask = torch.cat([mask, torch.zeros(1, 3, dtype=torch.bool)], 1)
    assert torch.allclose(policy(ids, mask).logprobs, policy(wide, wide_mask).logprobs[:, :4], atol=1e-6)


def test_the_first_token_of_a_row_has_no_log_prob() -> None:
    policy = TinyPolicy(hidden=16, layers=1, heads=2).build()
    with pytest.raises(ValueError, match="predictor"):
        policy(torch.tensor([[3, 4]]), torch.tensor([[True, True]]))


def test_a_saved_policy_comes_back_with_its_tokenizer(tmp_path: Path) -> None:
    policy = TinyPolicy(hidden=16, layers=1, heads=2, seed=7).build()
    policy.save(tmp_path)
    again = PretrainedPolicy(str(tmp_path)).build()
    prompt = Prompt(id="a", text="493027=")
    assert again.encode(prompt) == policy.encode(prompt)
    assert again.decode(policy.encode(prompt)) == "493027="
    assert again.eos_token_ids == policy.eos_token_ids == {1}
    for name, value in policy.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    assert PretrainedPolicy(str(tmp_path)).parameters() == sum(p.numel() for p in policy.parameters())


def test_weights_that_a_file_maps_begin_where_a_cache_line_does(tmp_path: Path) -> None:
    TinyPolicy().build().save(tmp_path)
    assert {parameter.data_ptr() % 64 for parameter in PretrainedPolicy(str(tmp_path)).build().parameters()} == {0}


def test_the_tiny_policy_has_the_parameters_it_announces_and_a_seed() -> None:
    source = TinyPolicy(hidden=64, layers=2)
    assert source.parameters() == sum(p.numel() for p in source.build().parameters()) == 132_928
    one, other = TinyPolicy(seed=1).build(), TinyPolicy(seed=2).build()
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


def test_a_character_outside_the_alphabet_is_an_error() -> None:
    with pytest.raises(Exception, match=r"(?i)unk|alphabet"):
        TinyPolicy(hidden=16, layers=1, heads=2).build().encode(Prompt(id="a", text="12é="))


def test_messages_need_a_chat_template() -> None:
    policy = TinyPolicy(hidden=16, layers=1, heads=2).build()
    with pytest.raises(ValueError, match=r"'a'.* chat template"):
        policy.encode(Prompt(id="a", messages=({"role": "user", "content": "1"},)))
    policy.tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}={% endif %}"
    assert policy.decode(policy.encode(Prompt(id="a", messages=({"role": "user", "content": "12"},)))) == "12="


def test_a_tokenizer_without_eos_is_refused() -> None:
    model = LlamaForCausalLM(TinyPolicy(hidden=16, layers=1, heads=2).config())
    model.generation_config.eos_token_id = None
    tokenizer = character_tokenizer(ALPHABET, 64)
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="eos_token"):
        Policy(model, tokenizer)


def test_several_eos_ids_are_all_known() -> None:
    model = LlamaForCausalLM(TinyPolicy(hidden=16, layers=1, heads=2).config())
    model.generation_config.eos_token_id = [1, 5]
    assert Policy(model, character_tokenizer(ALPHABET, 64)).eos_token_ids == {1, 5}


@pytest.mark.parametrize("build", [lambda p: p.build(), lambda p: p.parameters()])
def test_a_missing_folder_is_named(tmp_path: Path, build: Any) -> None:
    with pytest.raises(ValueError, match=r"'\./nowhere'"):
        build(PretrainedPolicy("./nowhere"))
    with pytest.raises(ValueError, match=r"config\.json"):
        build(PretrainedPolicy(str(tmp_path)))
