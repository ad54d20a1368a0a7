"""The part of a tokenizer of transformers that lightrl uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypedDict

from lightrl.types import JSON, Message


class Encoding(TypedDict):
    """A text in tokens."""

    input_ids: list[int]
    """Their ids."""
    offset_mapping: list[tuple[int, int]]
    """The first character of each token, and one more than its last; there only if it was asked for."""


class AddedToken(Protocol):
    """A token beside the vocabulary; written with `str`."""

    special: bool
    """It controls: it opens or closes something, and is left out of decoded text."""


class BackendEncoding(Protocol):
    """A text in tokens, as `tokenizers` gives it."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    """As `offset_mapping` of `Encoding`."""


class BackendStep(Protocol):
    """A normalizer or pre-tokenizer of `tokenizers`."""

    def __getstate__(self) -> bytes:
        """Its part of `tokenizer.json`."""


class BackendModel(Protocol):
    """A model of `tokenizers`."""

    continuing_subword_prefix: str | None
    end_of_word_suffix: str | None


class Backend(Protocol):
    """A `tokenizers.Tokenizer`."""

    normalizer: BackendStep | None
    pre_tokenizer: BackendStep | None
    model: BackendModel

    def to_str(self) -> str:
        """The text of `tokenizer.json`."""

    def from_str(self, json: str) -> Backend:
        """Another one, of such a text."""

    def no_truncation(self) -> None:
        """Cut nothing off."""

    def no_padding(self) -> None:
        """Fill nothing up."""

    def encode(self, sequence: str, *, add_special_tokens: bool = True) -> BackendEncoding:
        """The tokens of a text."""


class Tokenizer(Protocol):
    """A `transformers.PreTrainedTokenizerBase`."""

    is_fast: bool
    """It can tell which characters a token stands for."""
    chat_template: str | dict[str, str] | None
    """The Jinja template that makes one text of messages; or several, by name."""
    bos_token_id: int | None
    eos_token_id: int | None
    pad_token_id: int | None
    pad_token: str | None
    unk_token: str | None
    special_tokens_map: dict[str, str]
    """The special tokens by their roles; templates know them by these names."""

    @property
    def added_tokens_decoder(self) -> Mapping[int, AddedToken]:
        """The tokens beside the vocabulary by their ids; each is written with `str`."""

    @property
    def backend_tokenizer(self) -> Backend:
        """The tokenizer of `tokenizers` in it; only if it is fast."""

    def __len__(self) -> int: ...

    def get_vocab(self) -> dict[str, int]:
        """The ids of all tokens."""

    def __hash__(self) -> int: ...

    def __call__(
        self, text: str, *, add_special_tokens: bool = True, return_offsets_mapping: bool = False, verbose: bool = True
    ) -> Encoding:
        """The tokens of a text, none cut off."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text."""

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of ids."""

    def convert_tokens_to_ids(self, tokens: str) -> int:
        """The id of a token."""

    def add_special_tokens(self, special_tokens_dict: Mapping[str, str]) -> int:
        """Give tokens a role, and ids if they have none; says how many are new."""

    def get_chat_template(self) -> str:
        """The template that is used for messages without tools."""

    def apply_chat_template(
        self,
        conversation: Sequence[Message],
        tools: list[JSON] | None = None,
        *,
        add_generation_prompt: bool = False,
        tokenize: Literal[False],
    ) -> str:
        """Messages as one text."""

    def save_pretrained(self, save_directory: str | Path) -> object:
        """Write it into a folder."""
