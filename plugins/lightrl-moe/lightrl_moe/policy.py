"""Policies that are mixtures of experts: tiny random ones, and those of a folder or the hub."""

from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Le

from lightrl import Policy, PretrainedPolicy, TinyPolicy
from lightrl_moe.routers import in_its_own_type, routers_of

ALPHABET = "0123456789+-*=>,.:()? "
"""The characters that `TinyPolicy` knows."""


class TinyMixture(TinyPolicy):
    """A mixture of experts over characters, with random weights: learns synthetic tasks in minutes and needs no download."""

    tried_as = "TinyMixture"

    def __init__(
        self,
        family: Literal["mixtral", "qwen2_moe", "qwen3_moe"] = "qwen3_moe",
        experts: Annotated[int, Ge(2), Le(256)] = 8,
        chosen: Annotated[int, Ge(1), Le(16)] = 2,
        hidden: Annotated[int, Ge(1), Le(2**13)] = 64,
        layers: Annotated[int, Ge(1), Le(128)] = 2,
        heads: Annotated[int, Ge(1), Le(2**10)] = 4,
        alphabet: str = ALPHABET,
        max_positions: Annotated[int, Ge(2), Le(2**20)] = 512,
        seed: Annotated[int, Ge(0)] = 0,
        dtype: Literal["float32", "bfloat16", "float16", "float64"] = "float32",
    ) -> None:
        """
        Args:
            family: of transformers. qwen2_moe has an expert that every token goes to beside those that are chosen.
            experts: in each block.
            chosen: experts of each token, at most `experts`.
            hidden: width; divisible by heads. The experts of a token are together four times as wide; embeddings are tied.
            layers: number of blocks.
            heads: attention heads.
            alphabet: the characters it knows, each a token; with padding and EOS they are the vocabulary.
            max_positions: longest row in tokens.
            seed: of the weights.
            dtype: of the weights in memory. In float64 routers compute in float64 too, where transformers rounds to float32.

        Raises:
            ValueError: hidden is not divisible by heads, or chosen is more than experts.
        """
        if chosen > experts:
            raise ValueError(f"TinyMixture needs chosen <= experts, got chosen={chosen}, experts={experts}")
        super().__init__(hidden, layers, heads, alphabet, max_positions, seed, dtype)
        self.family, self.experts, self.chosen = family, experts, chosen

    def build(self) -> Policy:
        return exact(super().build())

    def config(self) -> Any:
        """See `TinyPolicy.config`."""
        import transformers

        wide = max(1, 4 * self.hidden // self.chosen)
        common = {**self.sizes(), "num_experts_per_tok": self.chosen, "num_key_value_heads": self.heads}
        if self.family == "mixtral":
            return transformers.MixtralConfig(**common, num_local_experts=self.experts, intermediate_size=wide, sliding_window=None)
        common |= {"num_experts": self.experts, "moe_intermediate_size": wide, "intermediate_size": 4 * self.hidden}
        if self.family == "qwen2_moe":
            return transformers.Qwen2MoeConfig(**common, shared_expert_intermediate_size=wide)
        return transformers.Qwen3MoeConfig(**common, norm_topk_prob=True, head_dim=self.hidden // self.heads)


class PretrainedMixture(PretrainedPolicy):
    """A mixture of experts from a Hugging Face folder or hub id; a policy without routers is refused."""

    tried_as = "TinyMixture"

    def build(self) -> Policy:
        return exact(super().build())

    def build_lazy(self) -> Policy:
        return exact(super().build_lazy())


def exact(policy: Policy) -> Policy:
    """The same policy, in float64 with routers that compute in float64; a ValueError if it is no mixture."""
    routers = routers_of(policy.model.base_model)
    if policy.model.dtype == torch.float64:
        for router in routers:
            router.module.register_forward_hook(in_its_own_type)
    return policy
