"""Models of transformers as lightrl takes them: with every weight from their files, and without dropout."""

from __future__ import annotations

from typing import Any, TypeVar

from torch import nn


def with_every_weight(auto: Any, path: str, head: bool = True, **options: Any) -> Any:
    """The model of a folder or hub id; transformers alone would make up what the files lack, with a warning.

    Args:
        head: the output embeddings are of use; False: the files may do without them.

    Raises:
        ValueError: a weight is in no file.
    """
    model, info = auto.from_pretrained(path, output_loading_info=True, **options)
    missing = set(info["missing_keys"])
    if not head and (embeddings := model.get_output_embeddings()) is not None:
        missing -= {name for name, parameter in model.named_parameters() if any(parameter is own for own in embeddings.parameters())}
    if missing:
        raise ValueError(f"its files have no {min(missing)} ({len(missing)} weights are missing), which would be random")
    return model


M = TypeVar("M", bound=nn.Module)


def without_dropout(model: M) -> M:
    """The same model with every dropout at 0: otherwise the ratio of an unchanged policy would differ from 1."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "dropout", "activation_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model
