"""A critic with a trunk of its own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from lightrl.ops.pretrained import with_every_weight, without_dropout
from lightrl.parts.critic import ClippedCritic, hidden_size, value_head
from lightrl.ranges import NonNegative


class ValueModel(ClippedCritic):
    """A trunk and a linear head that share no parameter with the policy.

    The trunk starts as a copy of the policy's, or comes with its head from a reward model: a model that scores whole answers
    is a good start for one that predicts their scores from the beginning.

    Source: Stiennon et al. 2020, arXiv:2009.01325, section 3.4 (separate networks, value function started from the reward model).
    """

    own_trunk = True

    def __init__(self, path: str | None = None, coefficient: NonNegative = 1.0, **kwargs: Any) -> None:
        """
        Args:
            path: folder of a reward model with one output (AutoModelForSequenceClassification), whose trunk and head are
                taken, or of a causal LM, whose trunk is; null: a copy of the policy's trunk. Its vocabulary must be the policy's.
            coefficient: weight of the value loss; at least 0. With Adam and parameters of its own it changes little.
            **kwargs: the other arguments of `ClippedCritic`.
        """
        super().__init__(coefficient=coefficient, **kwargs)
        self.path = path

    def check(self, policy: nn.Module) -> None:
        """See `Critic.check`: the folder must hold a model with one output and the policy's vocabulary."""
        if self.path is not None:
            _config(self.path, _vocabulary(policy))

    def build(self, policy: nn.Module) -> nn.Module:
        """See `Critic.build`; a ValueError if the folder is not there, holds no model with one output, or has another vocabulary."""
        like = next(policy.parameters())
        if self.path is None:
            # adapters that it may have in its weights
            own: Any = copy.deepcopy(policy)
            trunk, head = own.merged().model.base_model, value_head(hidden_size(policy))
        else:
            trunk, head = _from_folder(self.path, _vocabulary(policy))
        return _OwnTrunk(without_dropout(trunk).requires_grad_(), head).to(like)


class _OwnTrunk(nn.Module):
    reads_hidden = False

    def __init__(self, trunk: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.trunk, self.head = trunk, head

    def forward(self, input_ids: Tensor, hidden: Callable[[nn.Module], Tensor]) -> Tensor:
        found: Tensor = self.head(hidden(self.trunk))
        return found[..., 0]


def _vocabulary(policy: nn.Module) -> int:
    model: Any = policy.model
    size: int = model.config.get_text_config().vocab_size
    return size


def _config(path: str, vocabulary: int) -> Any:
    """The config of the model in a folder that a critic can start from."""
    from transformers import AutoConfig

    if not (Path(path).expanduser() / "config.json").is_file():
        raise ValueError(f"ValueModel.path: there is no config.json in the folder {path!r}; give a folder written by save_pretrained")
    with _said_of(path):
        config = AutoConfig.from_pretrained(path, trust_remote_code=False)
        text: Any = config.get_text_config()
        if text.vocab_size != vocabulary:
            raise ValueError(
                f"it knows {text.vocab_size} tokens and the policy {vocabulary}: a critic reads the policy's tokens, so give a model with "
                "the policy's tokenizer"
            )
        if _classifies(config) and config.num_labels != 1:
            raise ValueError(f"it is a classifier with {config.num_labels} outputs, and a reward model has 1")
    return config


@contextmanager
def _said_of(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ValueError(f"ValueModel.path: {path!r} is of no use here: {str(error).splitlines()[0]}") from error


def _classifies(config: Any) -> bool:
    return str((config.architectures or [""])[0]).endswith("ForSequenceClassification")


def _from_folder(path: str, vocabulary: int) -> tuple[nn.Module, nn.Linear]:
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    config = _config(path, vocabulary)
    options: dict[str, Any] = {"trust_remote_code": False, "dtype": torch.float32}
    with _said_of(path):
        if not _classifies(config):
            trunk = with_every_weight(AutoModelForCausalLM, path, head=False, **options).base_model
            return trunk, value_head(config.get_text_config().hidden_size)
        classifier = with_every_weight(AutoModelForSequenceClassification, path, **options)
    score, head = classifier.score, value_head(classifier.score.in_features)
    with torch.no_grad():
        head.weight.copy_(score.weight)
        if score.bias is not None:
            head.bias.copy_(score.bias)
    return classifier.base_model, head
