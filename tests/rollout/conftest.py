"""Small policies of several architectures, with weights large enough for peaked distributions."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from lightrl_workshop import rollouts_with

from lightrl import Policy, Prompt, TransformersEngine
from lightrl.policy.tiny import ALPHABET, character_tokenizer
from lightrl.rollout.loop import RolloutLoop

SHARED = {"vocab_size": len(ALPHABET) + 2, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
BLOCKS = SHARED | {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 96,
}


def _config(architecture: str) -> Any:
    import transformers as t

    configs: dict[str, Callable[[], Any]] = {
        "llama": lambda: t.LlamaConfig(**BLOCKS),
        "llama-eager": lambda: t.LlamaConfig(**BLOCKS, attn_implementation="eager"),
        "qwen2": lambda: t.Qwen2Config(**BLOCKS),
        "qwen3": lambda: t.Qwen3Config(**BLOCKS),
        "mistral": lambda: t.MistralConfig(**BLOCKS, sliding_window=None),
        "gpt2": lambda: t.GPT2Config(**SHARED, n_embd=32, n_layer=2, n_head=4, n_positions=96),
        "mistral-sliding": lambda: t.MistralConfig(**BLOCKS, sliding_window=6),
        "gemma2": lambda: t.Gemma2Config(**BLOCKS, sliding_window=6, query_pre_attn_scalar=8),
        "gemma3": lambda: t.Gemma3TextConfig(**BLOCKS, sliding_window=6, layer_types=["sliding_attention", "full_attention"]),
        "bloom": lambda: t.BloomConfig(**SHARED, hidden_size=32, n_layer=2, n_head=4),
        "mamba": lambda: t.MambaConfig(**SHARED, hidden_size=32, num_hidden_layers=1),
        "lfm2": lambda: t.Lfm2Config(**BLOCKS, layer_types=["conv", "full_attention"]),
    }
    return configs[architecture]()


def build(architecture: str, seed: int = 0, scale: float = 6.0, **changes: Any) -> Policy:
    """A random policy of this architecture; `scale` multiplies its logits' weights."""
    from transformers import AutoModelForCausalLM

    config = _config(architecture)
    for key, value in changes.items():
        setattr(config, key, value)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02 * scale)
    return Policy(model.train(), character_tokenizer(ALPHABET, 96))


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def policy_of() -> Callable[..., Policy]:
    """Builds a policy by the name of its architecture."""
    return build


@pytest.fixture
def policy() -> Policy:
    """A tiny Llama."""
    return build("llama")


@pytest.fixture
def engine_for() -> Callable[..., RolloutLoop]:
    """Builds rollouts of an engine that holds a policy's weights as version 3."""

    def make(policy: Policy, **settings: Any) -> RolloutLoop:
        return rollouts_with(policy, TransformersEngine(**{"max_new_tokens": 24, **settings}), version=3)

    return make


@pytest.fixture
def reads_of() -> Callable[[Policy, RolloutLoop], list[tuple[int, int]]]:
    """Notes rows and tokens of a row each time that a policy reads from now on; its decode step has been tried before."""

    def watch(policy: Policy, rollouts: RolloutLoop) -> list[tuple[int, int]]:
        shapes: list[tuple[int, int]] = []
        rollouts.rollout([Prompt(id="before", text="1=")], 1)
        embedding = policy.model.get_input_embeddings()
        embedding.register_forward_pre_hook(lambda _, inputs: shapes.append((len(inputs[0]), inputs[0][0].numel())))
        return shapes

    return watch


@pytest.fixture
def even() -> list[Prompt]:
    """Prompts of one length."""
    return [Prompt(id=f"even-{i}", text=f"{i}+{i}=") for i in range(4)]


@pytest.fixture
def uneven() -> list[Prompt]:
    """Prompts of 2 to 13 tokens, the longest not last."""
    return [Prompt(id=f"uneven-{i}", text=text) for i, text in enumerate(["12+3=", "4=", "123456+98765=", "1+1=", "77-8="])]
