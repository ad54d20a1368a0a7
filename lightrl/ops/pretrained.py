"""A model of transformers with every weight from its files."""

from __future__ import annotations

from typing import Any


def with_every_weight(auto: Any, path: str, **options: Any) -> Any:
    """The model of a folder or hub id; transformers alone would make up what the files lack, with a warning.

    Args:
        auto: a class of transformers with `from_pretrained`.
        path: the folder or hub id.
        **options: of `from_pretrained`.

    Raises:
        ValueError: a weight is in no file.
    """
    model, info = auto.from_pretrained(path, output_loading_info=True, **options)
    if missing := sorted(info["missing_keys"]):
        raise ValueError(f"its files have no {missing[0]} ({len(missing)} weights are missing), which would be random")
    return model
