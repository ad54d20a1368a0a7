"""A policy that a script has loaded itself."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class LoadedPolicy(PolicySource):
    """A causal LM of Hugging Face and its tokenizer, as a script has loaded or made them; the model itself is trained."""

    def __init__(self, model: PreTrainedModel, tokenizer: Tokenizer) -> None:
        """
        Args:
            model: with a language-modelling head.
            tokenizer: that fits it.

        Raises:
            TypeError: one of them is something else.
        """
        if not isinstance(model, torch.nn.Module) or not hasattr(model, "get_output_embeddings"):
            raise TypeError(f"model must be a causal LM, got {type(model).__name__}.\nType AutoModelForCausalLM.from_pretrained(...)")
        if not hasattr(tokenizer, "decode"):
            raise TypeError(f"tokenizer must be one, got {type(tokenizer).__name__}.\nType AutoTokenizer.from_pretrained(...)")
        self._model, self._tokenizer = model, tokenizer

    @property
    def dtype(self) -> str:
        """Of the weights."""
        return str(self._model.dtype).removeprefix("torch.")

    def build(self) -> Policy:
        return Policy(self._model.train(), self._tokenizer)

    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    def outline(self) -> Any:
        with torch.device("meta"):
            return type(self._model)(copy.deepcopy(self._model.config))
