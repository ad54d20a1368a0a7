"""Weights in a folder that appears whole and is checked before a server reads it: all of them, or adapters alone."""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lightrl import PolicyWeights
from lightrl_servers.server import Answer, Server, ServerError

IGNORED = frozenset({"transformers_version", "_name_or_path", "use_cache", "torch_dtype", "dtype", "architectures"})
"""Entries of a config that change no tensor."""
HEADER_BYTES = 8
"""A file begins with the length of its header."""
REPAIR = "treat the server as dead: end it, start it again, and resume the run"
SIZES = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "tie_word_embeddings",
)
"""Entries of a config that say which tensors there are, and what they mean."""
NAME = "lightrl-policy"
"""Of the adapters on the server."""


@dataclass(frozen=True)
class FolderLayout:
    """The config and the tensors of a folder; two that are equal can take each other's place in a running server."""

    config: dict[str, Any]
    """Of the model, or of the adapters."""
    tensors: dict[str, tuple[str, tuple[int, ...]]]
    """By name, dtype and shape."""

    def differences(self, other: FolderLayout) -> list[str]:
        """Each thing in which another layout differs, as a sentence."""
        keys = sorted((self.config.keys() | other.config.keys()) - IGNORED)
        pairs = {key: (self.config.get(key), other.config.get(key)) for key in keys}
        config = [f"{key} is {now!r}, was {before!r}" for key, (before, now) in pairs.items() if before != now]
        names = sorted(self.tensors.keys() | other.tensors.keys())
        tensors = [
            f"tensor {name} is {_shown(other.tensors.get(name))}, was {_shown(self.tensors.get(name))}"
            for name in names
            if self.tensors.get(name) != other.tensors.get(name)
        ]
        return config + tensors


def read_layout(folder: Path, config: str = "config.json") -> FolderLayout:
    """The layout of a folder with `*.safetensors` and a config; a ValueError if there are none."""
    if not (folder / config).is_file():
        raise ValueError(f"there is no {config} in {str(folder)!r}")
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"there is no safetensors file in {str(folder)!r}")
    tensors = {name: about for file in files for name, about in _tensors(file).items()}
    return FolderLayout(json.loads((folder / config).read_text()), tensors)


def _tensors(file: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    with file.open("rb") as opened:
        header = json.loads(opened.read(int.from_bytes(opened.read(HEADER_BYTES), "little")))
    return {name: (about["dtype"], tuple(about["shape"])) for name, about in header.items() if name != "__metadata__"}


def _shown(about: tuple[str, tuple[int, ...]] | None) -> str:
    return "missing" if about is None else f"{about[0]} {list(about[1])}"


class WeightReload(ABC):
    """Writes weights into a folder that appears whole, checks it, and has servers read it.

    A server that is asked to read a wrong folder dies, so that nothing is asked before the folder has the layout of the first one.
    """

    config: ClassVar[str] = "config.json"
    """The file that says what the weights belong to."""
    adapters: ClassVar[str | None] = None
    """The name by which requests ask for the policy's adapters; None: the model itself has all weights."""
    serve: ClassVar[tuple[str, ...]] = ()
    """Words that a server needs for it."""

    def __init__(self, folder: Path, limit_s: float) -> None:
        """Servers see the folder for the weights under the same path, and may take `limit_s` for an update."""
        self.folder, self.limit_s = folder, limit_s
        self._first: FolderLayout | None = None
        self._last: Path | None = None
        self._written = 0

    def write(self, weights: PolicyWeights, version: int) -> Path:
        """Write the weights, check the folder on the first rank, and give its path; collective."""
        self._written += 1
        folder = self.folder / f"{self._written}-version-{version}"
        unfinished = self.folder / f".{folder.name}"
        self.save(weights, unfinished)
        weights.on_first_rank(lambda: self._publish(unfinished, folder))
        return folder

    def remove_former(self, folder: Path) -> None:
        """Delete the folder before this one, from `write`, which every server has read."""
        former, self._last = self._last, folder
        if former is not None:
            shutil.rmtree(former)

    @abstractmethod
    def save(self, weights: PolicyWeights, folder: Path) -> None:
        """Write what servers read; collective."""

    @abstractmethod
    async def update(self, server: Server, folder: Path, version: int) -> None:
        """Give a server new weights from the folder of `write` while nothing is generated, and say their version.

        Raises:
            ServerError: it has not taken them.
            ValueError: they do not fit the model that it began with.
        """

    async def set_version(self, server: Server, version: int, **further: bool) -> None:
        """Tell a server the version of its weights, by the route that both kinds of servers have."""
        said = await server.post("/update_weight_version", {"new_version": str(version), **further})
        named = said.get("new_version")
        if named != str(version):
            wrong = f"the version is {named!r}, expected {str(version)!r}: {REPAIR}"
            raise ServerError(server.told("/update_weight_version", wrong))

    async def post(self, server: Server, path: str, body: Answer) -> Answer:
        """An answer to a request that is made once: a server that failed it is dead, and the ServerError says how to go on."""
        try:
            return await server.post(path, body, limit_s=self.limit_s, again=False)
        except ServerError as error:
            raise ServerError(f"{error}\nThe weights were not taken: {REPAIR}", error.status) from None

    def compare(self, layout: FolderLayout, known: FolderLayout, where: str) -> None:
        """Refuse, with a ValueError, weights that a server could not take: their layout is not the known one of what stands at `where`."""
        if differences := known.differences(layout):
            listed = "\n".join(f"  {sentence}" for sentence in differences[:5])
            more = f"\n  and {len(differences) - 5} more" if len(differences) > 5 else ""
            raise ValueError(f"the policy's weights do not fit {where}, and reading them would end the server:\n{listed}{more}")

    def _publish(self, unfinished: Path, folder: Path) -> None:
        layout = read_layout(unfinished, self.config)
        if self._first is None:
            self._first = layout
        self.compare(layout, self._first, "those of the first update")
        unfinished.rename(folder)


class FolderWeights(WeightReload):
    """Writes a Hugging Face folder with the whole policy, adapters added.

    The server's own model must have the same layout. That is checked where its folder can be seen from here.
    """

    def save(self, weights: PolicyWeights, folder: Path) -> None:
        """Write weights, config and tokenizer, adapters added."""
        weights.save(folder)

    def check_served(self, server: Server, folder: Path) -> None:
        """Refuse, with a ValueError, a folder whose sizes, names or shapes are not those of the model that the server began with."""
        served = Path(server.root)
        if not server.root or not (served / "config.json").is_file() or not list(served.glob("*.safetensors")):
            return
        mine, theirs = read_layout(folder), read_layout(served)
        common = mine.tensors.keys() & theirs.tensors.keys()
        # dtypes may differ, and what is tied may be there twice
        shapes = [FolderLayout(_of_sizes(layout), {name: ("", layout.tensors[name][1]) for name in common}) for layout in (mine, theirs)]
        self.compare(shapes[0], shapes[1], server.told("", f"its model {server.root!r}"))


def _of_sizes(layout: FolderLayout) -> dict[str, object]:
    return {key: value for key, value in layout.config.items() if key in SIZES}


class AdapterWeights(WeightReload):
    """Writes a PEFT folder with the adapters alone; the policy must have been trained on the base that the server has."""

    config = "adapter_config.json"
    adapters = NAME

    def save(self, weights: PolicyWeights, folder: Path) -> None:
        """Write the adapters."""
        weights.save_adapters(folder)
