"""Tiny models of every causal family that transformers has."""

import functools
from pathlib import Path
from typing import Any

import torch
import yaml

from lightrl import TinyPolicy

SIZES: dict[str, int | float] = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "embed_dim", "embedding_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads",), 2),
    **dict.fromkeys(("head_dim", "rotary_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), 8),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank"), 16),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "decoder_ffn_dim"), 48),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 24),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), 512),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok",), 2),
    **dict.fromkeys(("sliding_window", "attention_window"), 8),
    **dict.fromkeys(("initializer_range", "init_std"), 0.2),
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
"""Sizes by the names that configurations have for them."""


@functools.cache
def settings() -> dict[str, dict[str, Any] | str]:
    """Settings that a family needs beside `SIZES`, or the reason why no tiny model of it can be made."""
    found: dict[str, dict[str, Any] | str] = yaml.safe_load((Path(__file__).parent / "families.yaml").read_text())
    return found


def families() -> list[str]:
    """The types of all causal families of the installed transformers."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


class TinyFamily(TinyPolicy):
    """A tiny model of any causal family of transformers, over characters, with random weights and dropout in its configuration."""

    def __init__(self, family: str) -> None:
        """
        Args:
            family: the `model_type` of its configuration, such as `llama`.

        Raises:
            ValueError: transformers has no such family, or no tiny model of it can be made.
        """
        super().__init__(hidden=32)
        if family not in families():
            raise ValueError(f"transformers has no causal family {family!r}; there are: {', '.join(families())}")
        if isinstance(why := settings().get(family), str):
            raise ValueError(f"no tiny {family} can be made: {why}")
        self.family = family

    def config(self) -> Any:
        from transformers import CONFIG_MAPPING

        plain = CONFIG_MAPPING[self.family]().get_text_config(decoder=True)
        known = {name: value for name, value in plain.to_dict().items() if value is None or isinstance(value, int | float)}
        further = settings().get(self.family, {})
        dropouts = {name: 0.1 for name, value in known.items() if isinstance(value, float) and ("drop" in name or "jitter" in name)}
        chosen = dropouts | {name: value for name, value in SIZES.items() if name in known} | {"vocab_size": len(self.alphabet) + 2}
        return type(plain)(**(chosen | further if isinstance(further, dict) else chosen))

    def _random_model(self) -> Any:
        model = super()._random_model()
        with torch.no_grad():
            for parameter in model.parameters():
                # some families begin with zeros, which hide what comes before them
                if not parameter.any():
                    torch.nn.init.normal_(parameter, std=0.1)
        return model
