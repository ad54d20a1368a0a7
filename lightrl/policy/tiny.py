"""A policy over characters, with random weights, and its tokenizer."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from annotated_types import Ge, Le

from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource, Precision
from lightrl.ranges import Seed
from lightrl.text.tokenizer import Tokenizer

ALPHABET = "0123456789+-*=>,.:()? "
"""22 characters; with padding and EOS a vocabulary of 24."""


class TinyPolicy(PolicySource):
    """Llama blocks over characters, with random weights: learns synthetic tasks in seconds and needs no download."""

    def __init__(
        self,
        hidden: Annotated[int, Ge(1), Le(2**13)] = 64,
        layers: Annotated[int, Ge(1), Le(128)] = 2,
        heads: Annotated[int, Ge(1), Le(2**10)] = 4,
        alphabet: str = ALPHABET,
        max_positions: Annotated[int, Ge(2), Le(2**20)] = 512,
        seed: Seed = 0,
        dtype: Precision = "float32",
    ) -> None:
        """
        Args:
            hidden: width; divisible by heads. The MLP is four times as wide; embeddings are tied.
            layers: number of blocks.
            heads: attention heads.
            alphabet: the characters it knows, each a token; with padding and EOS they are the vocabulary.
            max_positions: longest row in tokens.
            seed: of the weights.
            dtype: of the weights in memory.

        Raises:
            ValueError: hidden is not divisible by heads.
        """
        if hidden % heads:
            raise ValueError(f"TinyPolicy needs hidden divisible by heads, got hidden={hidden}, heads={heads}")
        self.hidden, self.layers, self.heads, self.alphabet = hidden, layers, heads, alphabet
        self.max_positions, self.seed, self.dtype = max_positions, seed, dtype

    def build(self) -> Policy:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = self._random_model().to(getattr(torch, self.dtype))
        return Policy(model.train(), self.tokenizer())

    def tokenizer(self) -> Tokenizer:
        return character_tokenizer(self.alphabet, self.max_positions)

    def outline(self) -> Any:
        with torch.device("meta"):
            return self._random_model()

    def config(self) -> Any:
        """The configuration of its model, as transformers has them; a subclass may give one of another family."""
        from transformers import LlamaConfig

        return LlamaConfig(intermediate_size=4 * self.hidden, **self.sizes())

    def sizes(self) -> dict[str, Any]:
        """The arguments that the configurations of most families share."""
        return {
            "vocab_size": len(self.alphabet) + 2,
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "max_position_embeddings": self.max_positions,
            "tie_word_embeddings": True,
            "pad_token_id": 0,
            "bos_token_id": None,
            "eos_token_id": 1,
        }

    def _random_model(self) -> Any:
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM.from_config(self.config())


def character_tokenizer(alphabet: str, max_positions: int) -> Tokenizer:
    """A fast Hugging Face tokenizer with one token per character, id 0 for padding and 1 for EOS.

    Args:
        alphabet: the characters; a character outside it is an error when text is encoded.
        max_positions: longest row in tokens.

    Raises:
        ValueError: a character stands twice.
    """
    from tokenizers import Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as CharacterTokenizer
    from transformers import PreTrainedTokenizerFast

    if len(set(alphabet)) != len(alphabet):
        raise ValueError(f"a character stands twice in the alphabet {alphabet!r}")
    vocabulary = {"<pad>": 0, "<eos>": 1} | {character: 2 + i for i, character in enumerate(alphabet)}
    inner = CharacterTokenizer(models.WordLevel(vocabulary))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    inner.decoder = decoders.Fuse()
    made: Tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", model_max_length=max_positions, clean_up_tokenization_spaces=False
    )
    return made
