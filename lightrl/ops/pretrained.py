"""A model of transformers with every weight from its files."""

from __future__ import annotations

from typing import Any


def with_every_weight(auto: Any, path: str, head: bool = True, **options: Any) -> Any:
    """The model of a folder or hub id; transformers alone would make up what the files lack, with a warning.

    Args:
        auto: a class of transformers with `from_pretrained`.
        path: the folder or hub id.
        head: the output embeddings are of use; False: the files may do without them.
        **options: of `from_pretrained`.

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
