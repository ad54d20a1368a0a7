"""The trunk of models with blocks in the order of Llama, from their own modules' weights, with exact sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lightrl_bitwise.attention import attention
from lightrl_bitwise.layers import embedding, linear, norm

TYPES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Values of `model_type` whose blocks are of this form."""
ROPES = frozenset({"default", "linear", "llama3", "yarn"})
"""Rotary positions whose angles do not depend on the length of the row."""

Product = Callable[[Any, Tensor], Tensor]
"""`[T, N]` of a linear module and its `[T, K]` input."""
Attend = Callable[[int, Tensor, Tensor, Tensor, float], Tensor]
"""`[T, heads, D]` of the number of a block, its queries, keys and values, `[T, heads, D]` each, and the scale of scores."""


def refuse_other_forms(model: Any) -> None:
    """Raise ValueError for a causal LM that this file does not compute."""
    config = model.config
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    blocks = getattr(model.base_model, "layers", [])
    found = {
        "it has adapters": hasattr(model, "peft_config"),
        f"it is of the type {config.model_type}, and computed are {', '.join(sorted(TYPES))}": config.model_type not in TYPES,
        f"its rotary positions are {rope}, and computed are {', '.join(sorted(ROPES))}": rope not in ROPES,
        f"its MLP has {getattr(config, 'hidden_act', None)}, and computed is silu": getattr(config, "hidden_act", None) != "silu",
        "some of its blocks see a window only": any(getattr(block.self_attn, "sliding_window", None) for block in blocks),
    }
    if reasons := [reason for reason, holds in found.items() if holds]:
        raise ValueError(
            f"lightrl-bitwise cannot compute {type(model).__name__}: {reasons[0]}.\n"
            "Use the policy without BitwisePolicy, and TransformersEngine as model.engine"
        )


def longest_row(model: Any) -> int:
    """The most tokens of a row, which decides how numbers are rounded."""
    return int(getattr(model.config, "max_position_embeddings", None) or 2**15)


def hidden_states(model: Any, ids: Tensor, positions: Tensor, multiply: Product, attend: Attend) -> Tensor:
    """`[T, H]` last hidden states of `[T]` ids at positions of their rows. ValueError: the weights are not on a CPU."""
    trunk = model.base_model
    if (device := trunk.embed_tokens.weight.device.type) != "cpu":
        raise ValueError(f"lightrl-bitwise computes on a CPU, and the policy is on {device}: set trainer.accelerator to cpu")
    hidden = embedding(ids, trunk.embed_tokens.weight, trunk.embed_tokens.padding_idx)
    cos, sin = (part[0, :, None] for part in trunk.rotary_emb(hidden, positions[None]))
    for number, block in enumerate(trunk.layers):

        def run(hidden: Tensor, number: int = number, block: Any = block) -> Tensor:
            return _block(hidden, block, cos, sin, multiply, lambda *states: attend(number, *states))

        again = getattr(trunk, "gradient_checkpointing", False) and torch.is_grad_enabled()
        hidden = checkpoint(run, hidden, use_reentrant=False) if again else run(hidden)
    return normed(trunk.norm, hidden)


def _block(hidden: Tensor, block: Any, cos: Tensor, sin: Tensor, multiply: Product, attend: Callable[..., Tensor]) -> Tensor:
    own, mlp = block.self_attn, block.mlp
    before = normed(block.input_layernorm, hidden)
    query, key, value = (multiply(module, before).view(len(before), -1, own.head_dim) for module in (own.q_proj, own.k_proj, own.v_proj))
    if hasattr(own, "q_norm"):
        query, key = normed(own.q_norm, query), normed(own.k_norm, key)
    read = attend(_turned(query, cos, sin), _turned(key, cos, sin), value, own.scaling)
    hidden = hidden + multiply(own.o_proj, read.flatten(1))
    between = normed(block.post_attention_layernorm, hidden)
    gate = multiply(mlp.gate_proj, between)
    # torch's own silu has another last bit where a vector of the processor is not full
    return hidden + multiply(mlp.down_proj, gate / (1 + (-gate).exp()) * multiply(mlp.up_proj, between))


def normed(module: Any, states: Tensor) -> Tensor:
    """The output of an RMS norm."""
    return norm(states, module.weight, module.variance_epsilon)


def _turned(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = heads.chunk(2, -1)
    return heads * cos + torch.cat([-second, first], -1) * sin


class WholeRows:
    """Rows of some lengths, read from their beginnings, with a gradient."""

    def __init__(self, lengths: Sequence[int], longest: int) -> None:
        """`longest`: the most tokens of any row of the model."""
        self._lengths, self._longest = lengths, longest
        size = torch.tensor(lengths)
        inside = torch.arange(max(lengths)) < size[:, None]
        self._places = inside.flatten().nonzero()[:, 0]
        self._shape = inside.shape
        self.positions = inside.nonzero()[:, 1]
        """`[T]` of the tokens in their rows."""

    def multiply(self, module: Any, states: Tensor) -> Tensor:
        """See `Product`."""
        return linear(states, module.weight, module.bias, self._lengths)

    def attend(self, number: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """See `Attend`."""
        shared, width = query.shape[1] // key.shape[1], self._shape[1]
        visible = torch.ones(width, width, dtype=torch.bool).tril_().repeat(shared, 1)[None, None]
        keys, values = self.padded(key[:, :, None]), self.padded(value[:, :, None])
        read = attention(self.padded(query.reshape(len(query), -1, shared, query.shape[-1])), keys, values, visible, scale, self._longest)
        # [n, key heads, shared * width, D] to tokens
        rows = read.reshape(*read.shape[:2], shared, width, -1).permute(0, 3, 1, 2, 4).flatten(0, 1)
        return rows.index_select(0, self._places).flatten(1, 2)

    def padded(self, states: Tensor) -> Tensor:
        """`[n, k, shared * width, D]` of `[T, k, shared, D]`, with zeros behind each row."""
        rows, width = self._shape
        full = states.new_zeros(rows * width, *states.shape[1:]).index_copy(0, self._places, states)
        return full.view(rows, width, *full.shape[1:]).permute(0, 2, 3, 1, 4).flatten(2, 3)
