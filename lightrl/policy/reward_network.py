"""The trunk of a causal LM with one score on top, in the form of a sequence classifier of transformers."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lightrl.parts.critic import WideLinear
from lightrl.policy.adapted import AdaptedPolicy
from lightrl.policy.packed_trunk import trunk_states
from lightrl.policy.policy import Policy
from lightrl.policy.weight_access import unsharded_state
from lightrl.policy.written_model import write_model
from lightrl.strategies.disk import onto_disk
from lightrl.text.encoding import encode_conversation, must_be_fast, no_template, render
from lightrl.text.tokenizer import Tokenizer
from lightrl.types import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedModel

AS_TEXT = "{% for message in messages %}{{ message['content'] }}{% endfor %}{% if not add_generation_prompt %}{{ eos_token }}{% endif %}"
"""The template for a tokenizer without one: prompt and completion as they are, and EOS."""


class RewardNetwork(nn.Module):
    """Scores a conversation at its last token, which closes the answer."""

    eos_token_ids: frozenset[int] = frozenset()
    """It samples nothing, so only special tokens are control tokens."""

    def __init__(self, policy: Policy) -> None:
        """
        Args:
            policy: whose trunk is taken; its language-modelling head is not.

        Raises:
            ValueError: transformers has no sequence classifier with a linear head for this architecture.
        """
        super().__init__()
        # in a tuple, or its parameters would be registered a second time
        self._policy = (policy,)
        self.model: Any = classifier(policy.model)
        self.longest_packed = policy.longest_packed
        self.tokenizer = copy.deepcopy(policy.tokenizer)
        must_be_fast(self.tokenizer, "save a fast tokenizer (tokenizer.json) with the policy")
        self._takes_messages = bool(self.tokenizer.chat_template)
        if not self._takes_messages:
            bos = self.tokenizer.bos_token_id
            begins = bos is not None and self.tokenizer("")["input_ids"][:1] == [bos]
            self.tokenizer.chat_template = begins * "{{ bos_token }}" + AS_TEXT
        text: Any = self.model.config.get_text_config()
        text.pad_token_id = give_padding(self.tokenizer, text.vocab_size)

    @property
    def max_positions(self) -> int | None:
        """Longest conversation that the model takes, in tokens; None if it does not say."""
        return getattr(self.model.config.get_text_config(), "max_position_embeddings", None)

    def encode(self, prompt: Prompt, completion: str) -> list[int]:
        """Token ids of the conversation, as a reward that loads the exported folder reads it.

        Raises:
            ValueError: the prompt has messages and the policy's tokenizer no chat template.
        """
        if prompt.messages is not None and not self._takes_messages:
            remedy = "give the prompt source chat: false, or the policy a chat_template"
            raise no_template(f"prompt {prompt.id!r}", "the tokenizer", remedy)
        return encode_conversation(self.tokenizer, prompt, completion).ids

    def forward(self, input_ids: Tensor, last: Tensor) -> Tensor:
        """`[R]` scores, float32 or better.

        Args:
            input_ids: `[R, L]`, rows from position 0, padded on the right with any id: a causal model never reads there. On the CPU.
            last: `[R]` int64, position of each row's last token; on the CPU.
        """
        lengths = (last + 1).tolist()
        states = trunk_states(self.model.base_model, input_ids, self.model.score.weight.device, lengths, self.longest_packed)
        scores: Tensor = self.model.score(states.at(torch.arange(len(lengths)), last))[:, 0]
        return scores

    def save(self, folder: str | Path) -> None:
        """Write a Hugging Face folder (AutoModelForSequenceClassification with one output, safetensors, tokenizer with chat template)."""
        model = self._plain()
        with onto_disk(Path(folder)):
            write_model(model, self.tokenizer, folder, unsharded_state(model))

    def merged(self) -> RewardNetwork:
        """Itself: adapters are added to the weights as it is saved."""
        return self

    def _plain(self) -> Any:
        """The classifier, adapters (if there are any) added to its weights."""
        policy = self._policy[0]
        if not isinstance(policy, AdaptedPolicy):
            return self.model
        merged = classifier(copy.deepcopy(policy).merged().model)
        merged.score, merged.config = self.model.score, self.model.config
        return merged


def classifier(model: PreTrainedModel) -> PreTrainedModel:
    """The sequence classifier with one output around the trunk of a causal LM, its head near 0.

    The head begins as N(0, 1 / (H + 1)) with H the width of the trunk: Stiennon et al. 2020, arXiv:2009.01325, appendix B.1.

    Raises:
        ValueError: transformers has none for this architecture, or none that scores each token with a linear head.
    """
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING as CLASSIFIERS

    config = copy.deepcopy(model.config)
    config.num_labels = 1
    with torch.device("meta"):
        shell = CLASSIFIERS[type(config)](config) if type(config) in CLASSIFIERS else None
    trunk, prefix = model.base_model, getattr(shell, "base_model_prefix", "")
    if shell is None or not isinstance(getattr(shell, "score", None), nn.Linear) or type(getattr(shell, prefix, None)) is not type(trunk):
        raise ValueError(
            f"model.policy: transformers has no sequence classifier with a linear head for {type(model).__name__}, so a reward model of "
            "it could not be saved or scored with: take a decoder that has one (Llama, Qwen2, Qwen3, Mistral, Gemma, GPT-2, ...)"
        )
    like = next(model.parameters())
    shell.score = WideLinear(shell.score.in_features, 1, bias=False, device=like.device, dtype=like.dtype)
    nn.init.normal_(shell.score.weight, std=1 / (shell.score.in_features + 1))
    setattr(shell, prefix, trunk)
    return shell.train(model.training)


ADDED = "<|pad|>"
"""The token that is added where no other will do, if the embedding has a row to spare."""


def give_padding(tokenizer: Tokenizer, vocabulary: int) -> int | None:
    """Set a padding token that no row ends with, and give its id.

    The classifiers of transformers score at the last token that is not the padding token: where EOS pads and also closes a turn, that
    is the token before it. None and no padding token at all if there is no other: transformers then scores one row at a time, rightly.

    Args:
        tokenizer: with a chat template; is changed.
        vocabulary: rows of the embedding.
    """
    turns = [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]
    ids = tokenizer(render(tokenizer, turns), add_special_tokens=False)["input_ids"]
    # nothing, if the template closes with nothing
    closing = ids[-1] if ids else None
    special = [str(token) for _, token in sorted(tokenizer.added_tokens_decoder.items()) if "pad" in str(token).lower()]
    for name in (tokenizer.pad_token, *special, tokenizer.unk_token):
        if name is not None and tokenizer.convert_tokens_to_ids(name) != closing:
            tokenizer.pad_token = name
            return tokenizer.pad_token_id
    if len(tokenizer) < vocabulary:
        tokenizer.add_special_tokens({"pad_token": ADDED})
        return tokenizer.pad_token_id
    tokenizer.pad_token = None
    return None
