"""Log-probs of a reference that never changes, kept in a folder so that they are computed once."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from lightrl.rows import last_position
from lightrl.strategies.atomic import partial, publish, recover

IGNORED = ("transformers_version", "_name_or_path", "use_cache", "_attn_implementation_autoset")
"""Entries of a model's config that have no influence on its log-probs."""


class ReferenceCache:
    """The log-probs of completions under one reference, by the tokens that the reference reads.

    A key is made of the token ids and the beginning of the completion: a row has another key as soon as its text, the tokenizer,
    the chat template or its limits change these tokens. Each reference has a folder of its own, named after its weights.
    """

    def __init__(self, folder: str | Path, key: str) -> None:
        """The folder is that of all references, made if it is not there; the key, from `cache_key`, is of one."""
        self.folder = Path(folder).expanduser() / key
        self._known: dict[bytes, float] = {}
        self._new: dict[bytes, float] = {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            hint = "name a folder that can be written to, or null"
            raise ValueError(f"model.cache: {self.folder} cannot be made ({error}); {hint}") from error
        recover(self.folder)
        for file in sorted(self.folder.glob("*.safetensors")):
            self._read(file)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, keys: Sequence[bytes]) -> list[float | None]:
        """The log-prob of each key, None where it is not known."""
        return [self._known.get(key) for key in keys]

    def put(self, logprobs: Iterable[tuple[bytes, float]]) -> None:
        """Remember log-probs by their keys; `write` brings them to the disk."""
        new = dict(logprobs)
        self._new |= new
        self._known |= new

    def write(self) -> None:
        """Write the new log-probs as a file that appears whole or not at all; runs that share the folder do not disturb each other."""
        if not self._new:
            return
        keys = torch.tensor([list(key) for key in self._new], dtype=torch.uint8)
        file = self.folder / f"{hashlib.blake2b(b''.join(self._new), digest_size=16).hexdigest()}.safetensors"
        try:
            written = partial(file)
            save_file({"keys": keys, "logprobs": torch.tensor(list(self._new.values()), dtype=torch.float64)}, written)
            publish(written, file)
        except (OSError, SafetensorError) as error:
            # they can be computed again, and the run cannot
            warnings.warn(f"{len(self._new)} reference log-probs cannot be kept in {self.folder} ({error}): the run goes on", stacklevel=3)
        self._new.clear()

    def _read(self, file: Path) -> None:
        try:
            held = load_file(file)
            self._known |= dict(zip(map(bytes, held["keys"].tolist()), held["logprobs"].tolist(), strict=True))
        except (SafetensorError, KeyError, ValueError) as error:
            warnings.warn(f"{file} is no file of reference log-probs ({error}): its log-probs are computed again; delete it", stacklevel=3)


def row_keys(input_ids: Tensor, mask: Tensor) -> list[bytes]:
    """A key per row of `[N, L]`, which ends with the last token of its completion: of its tokens and where its completion begins."""
    rows = zip(input_ids.tolist(), mask.tolist(), (last_position(mask) + 1).tolist(), strict=True)
    read = [json.dumps([ids[:end], chosen[:end].index(True)]) for ids, chosen, end in rows]
    return [hashlib.blake2b(row.encode(), digest_size=16).digest() for row in read]


@torch.no_grad()
def cache_key(policy: nn.Module, precision: str) -> str:
    """32 hexadecimal digits that depend on the gathered weights, their type, the architecture and the precision of forward passes."""
    digest = hashlib.blake2b(precision.encode(), digest_size=16)
    config: Any = getattr(getattr(policy, "model", None), "config", None)
    if config is not None:
        digest.update(json.dumps({k: v for k, v in config.to_dict().items() if k not in IGNORED}, sort_keys=True, default=str).encode())
    for name, value in sorted(policy.state_dict().items()):
        digest.update(f"{name}:{value.dtype}:{tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
