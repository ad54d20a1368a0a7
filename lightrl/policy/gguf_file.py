"""GGUF files: weights, tokenizer and chat template in one, often quantized. transformers reads them; this makes them trainable."""

from __future__ import annotations

import copy
import functools
import importlib.util
import logging
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy

from lightrl.ops.lazy import CannotStayLazyError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)

NAME = "model.gguf"
_LONGEST_HEAD = 2**26
_NUMBERS = {2: "<H", 4: "<I", 5: "<i", 10: "<Q"}
_POSITIONS = (b"rope_freqs.weight", b"rope.scaling.factor")
_INSTEAD = "Give the model's folder or hub id instead"


def check_gguf(path: str) -> None:
    """Refuse a file that no package can read, and warn of what transformers leaves out.

    Raises:
        ValueError: it is of another format or one of several, or the package `gguf` is missing.
    """
    if not (head := _head(path)).startswith(b"GGUF"):
        raise ValueError(
            f"{path!r} is a file, and not GGUF; give a folder written by save_pretrained or lightrl export, a hub id or a GGUF file"
        )
    if importlib.util.find_spec("gguf") is None:
        raise ValueError(f"the GGUF file {path!r} needs the package gguf.\nType: pip install 'lightrl-core[gguf]'")
    if (files := _number(head, "split.count") or 1) > 1:
        raise ValueError(f"{path!r} is one of {files} files.\nType: llama-gguf-split --merge {path} merged.gguf")
    unread = head.replace(b"gpt-oss.rope.scaling.factor", b"")
    if found := [name.decode() for name in _POSITIONS if name in unread]:
        log.warning(
            "the GGUF file %r has %s, which transformers does not read: its positions are not scaled, so it is not quite the model that "
            "was published. %s",
            path, found[0], _INSTEAD,
        )  # fmt: skip


@contextmanager
def gguf_alone(path: str, what: str) -> Iterator[str]:
    """A folder with nothing but a link to the file, named `NAME`: transformers would also read the files beside it.

    Args:
        what: is read there, for the message.

    Raises:
        ValueError: reading it failed.
    """
    import gguf

    class Reader(gguf.GGUFReader):
        """Of a plain array, whose slices take a third of the time of a mapped one's."""

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, numpy.asarray(value) if name == "data" else value)

    # configuration, tokenizer and weights are read one after the other, and each module asks for the names of all tensors
    once = patch.multiple(gguf, GGUFReader=functools.cache(Reader), get_tensor_name_map=functools.cache(gguf.get_tensor_name_map))
    with tempfile.TemporaryDirectory() as folder, once:
        (Path(folder) / NAME).symlink_to(Path(path).expanduser().resolve())
        try:
            yield folder
        except CannotStayLazyError:
            raise
        except Exception as error:
            # what reads a file that ends too early may raise: of bytes, of indices, of shapes, of memory
            raise ValueError(f"the {what} {path!r} cannot be loaded: {_reason(error)}") from error


def plain_model(model: PreTrainedModel, path: str) -> PreTrainedModel:
    """The model as if it had never been quantized, so that it can be saved; it takes over the weights.

    Args:
        path: of the file, which may name a second token that ends a turn.
    """
    from accelerate import init_empty_weights

    config: Any = copy.deepcopy(model.config)
    config.name_or_path = ""
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with init_empty_weights(include_buffers=False):
        made: Any = type(model)(config)
    made.load_state_dict(model.state_dict(), assign=True)
    made.tie_weights()
    stated = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    ends = {*stated, _number(_head(path), "tokenizer.ggml.eot_token_id")} - {None}
    if len(ends) > 1:
        made.generation_config.eos_token_id = sorted(ends)
    return made


def _head(path: str) -> bytes:
    with Path(path).expanduser().open("rb") as file:
        return file.read(_LONGEST_HEAD)


def _number(head: bytes, key: str) -> int | None:
    """A whole number of the metadata: length and letters of the key, type, value."""
    at = head.find(struct.pack("<Q", len(key)) + key.encode())
    if at < 0:
        return None
    at += 8 + len(key)
    kind = int.from_bytes(head[at : at + 4], "little")
    return struct.unpack_from(_NUMBERS[kind], head, at + 4)[0] if kind in _NUMBERS else None


def _reason(error: Exception) -> str:
    from transformers import __version__

    said = f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), 'no more is known')}"
    if "rchitecture" in said or isinstance(error, NotImplementedError):
        return f"transformers {__version__} reads no such GGUF file ({said}). {_INSTEAD}"
    if isinstance(error, ImportError):
        return said
    return f"the file is cut off or damaged ({said}). Copy or download it again"
