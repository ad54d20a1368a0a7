"""Policy sources: the place a policy comes from. Building is separate from describing, so that a config costs nothing."""

from __future__ import annotations

import copy
import functools
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from safetensors import SafetensorError

from lightrl.ops.lazy import CannotStayLazyError
from lightrl.ops.pretrained import with_every_weight
from lightrl.parts.base import Part
from lightrl.policy.gguf_file import NAME as GGUF_NAME
from lightrl.policy.gguf_file import check_gguf, gguf_alone, plain_model
from lightrl.policy.policy import Policy
from lightrl.registry.classes import first_line
from lightrl.text.chat_template import template_of, with_arguments
from lightrl.text.tokenizer import Tokenizer
from lightrl.versions import dequantized, recompute_activations

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)

Precision = Literal["float32", "bfloat16", "float16", "float64"]

_OWN_CODE = (
    "it brings Python files of its own, and these are not executed. Read them; if you trust them, set trust_remote_code of this "
    "PretrainedPolicy to true"
)

_NO_TOKENIZER = (
    "there is no tokenizer.json beside the weights, nor a file to make one from, which takes sentencepiece or tiktoken. Type in Python: "
    'AutoTokenizer.from_pretrained("THE_BASE_MODEL").save_pretrained("FOLDER")'
)


class PolicySource(Part):
    """Says which policy is trained; builds it when the run starts."""

    tried_as: ClassVar[str] = "TinyPolicy"
    """The class that takes its place where a config is only tried: small, random, and with arguments hidden, layers and alphabet."""

    @abstractmethod
    def build(self) -> Policy:
        """The policy with its weights, on the CPU, in training mode; a ValueError that says why, if it cannot be had."""

    def build_lazy(self) -> Policy:
        """The policy as `build` gives it, its weights still in their files where that is possible.

        For strategies that cut weights over ranks: they read each layer when they cut it (`lightrl.ops.lazy`), so that no rank ever
        holds the whole policy.
        """
        return self.build()

    def tokenizer(self) -> Tokenizer:
        """The policy's tokenizer alone, where it can be had without the weights; a ValueError that says why, if it cannot be had."""
        return self.build().tokenizer

    @abstractmethod
    def outline(self) -> Any:
        """The model on the meta device: its layers and sizes, with nothing read or allocated."""

    def parameters(self) -> int:
        """The number of parameters that the policy will have, without reading or allocating its weights."""
        return _count(self.outline().parameters())

    def trainable(self) -> int:
        """The number of parameters that will be trained."""
        return _count(p for p in self.outline().parameters() if p.requires_grad)


class PretrainedPolicy(PolicySource):
    """A causal LM from a Hugging Face folder or hub id, or from a GGUF file, whose weights are dequantized."""

    def __init__(
        self,
        path: str,
        dtype: Precision = "float32",
        gradient_checkpointing: bool = False,
        chat_template: str | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
        attention: str | None = None,
        trust_remote_code: bool = False,
        revision: str | None = None,
    ) -> None:
        """
        Args:
            path: a folder written by `save_pretrained`, a hub id such as `Qwen/Qwen2.5-0.5B-Instruct`, or a GGUF file, which needs
                `lightrl-core[gguf]`.
            dtype: of the weights in memory.
            gradient_checkpointing: recompute activations in the backward pass: less memory, about a third more time.
            chat_template: a Jinja template, or the path of a file with one, in place of the tokenizer's own.
            chat_template_kwargs: arguments of the chat template, such as `{enable_thinking: false}`. They become part of the template that
                is saved with the policy, so that it is served as it was trained; who renders it may still give others.
            attention: `sdpa`, `eager`, `flash_attention_2`, ...; None takes the model's default. `OWNER/NAME` is code of the hub.
            trust_remote_code: execute the Python files of the folder, for architectures that transformers does not have. A person
                who can write into the folder can then do all that you can.
            revision: a branch, tag or commit of the hub, for the weights, the tokenizer and their code; None: the main branch. A folder
                has none.

        Raises:
            ValueError: attention names code of the hub, and trust_remote_code is false.
        """
        if attention is not None and "/" in attention and not trust_remote_code:
            raise ValueError(f"attention {attention!r} is code of the hub, which would be executed: if you trust it, say trust_remote_code")
        self.path, self.dtype, self.attention, self.revision = path, dtype, attention, revision
        self.gradient_checkpointing, self.trust_remote_code = gradient_checkpointing, trust_remote_code
        self.chat_template, self.chat_template_kwargs = chat_template, dict(chat_template_kwargs or {})

    def build(self) -> Policy:
        from transformers import AutoModelForCausalLM

        return self._built(functools.partial(with_every_weight, AutoModelForCausalLM))

    def build_lazy(self) -> Policy:
        from lightrl.policy.lazy_model import lazy_model

        try:
            return self._built(lazy_model)
        except CannotStayLazyError as error:
            log.warning("the whole policy %r is read, on every rank: %s", self.path, error)
            return self.build()

    def _built(self, make: Callable[..., PreTrainedModel]) -> Policy:
        tokenizer = self.tokenizer()
        options = {"attn_implementation": self.attention} if self.attention else {}
        with self._loading("policy") as (path, found):
            if self._is_file:
                options |= dequantized()
            model = make(path, dtype=getattr(torch, self.dtype), **found, **options)
            if self._is_file:
                model = plain_model(model, self.path)
        if self.gradient_checkpointing:
            recompute_activations(model)
        return Policy(model.train(), tokenizer)

    def tokenizer(self) -> Tokenizer:
        from transformers import AutoTokenizer

        with self._loading("tokenizer of the policy") as (path, found):
            tokenizer: Tokenizer = AutoTokenizer.from_pretrained(path, **found)
        if self.chat_template is not None:
            tokenizer.chat_template = template_of(self.chat_template)
        tokenizer.chat_template = with_arguments(tokenizer.chat_template, self.chat_template_kwargs)
        return tokenizer

    def outline(self) -> Any:
        from transformers import AutoConfig, AutoModelForCausalLM

        with self._loading("policy") as (path, found), torch.device("meta"):
            config = AutoConfig.from_pretrained(path, **found)
            return AutoModelForCausalLM.from_config(config, trust_remote_code=self.trust_remote_code)

    @property
    def _is_file(self) -> bool:
        return Path(self.path).expanduser().is_file()

    @contextmanager
    def _loading(self, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
        self._must_exist()
        if self._is_file:
            with gguf_alone(self.path, what) as folder:
                yield folder, {"gguf_file": GGUF_NAME, "trust_remote_code": False}
            return
        if self.trust_remote_code:
            announce_code(self.path)
        try:
            yield self.path, {"trust_remote_code": self.trust_remote_code} | ({"revision": self.revision} if self.revision else {})
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            raise ValueError(f"the {what} {self.path!r} cannot be loaded: {_reason(error)}") from error

    def _must_exist(self) -> None:
        folder = Path(self.path).expanduser()
        looks_local = self.path.startswith((".", "/", "~")) or self.path.count("/") != 1
        if folder.is_dir():
            if not (folder / "config.json").is_file():
                adapters = "; its adapters are taken by SavedAdapters, on their base" if (folder / "adapter_config.json").is_file() else ""
                raise ValueError(f"the folder {self.path!r} holds no policy: there is no config.json in it{adapters}")
        elif folder.is_file():
            check_gguf(self.path)
        elif looks_local or folder.suffix == ".gguf":
            kind = "file" if folder.suffix == ".gguf" else "folder"
            raise ValueError(
                f"there is no {kind} {self.path!r}; give a folder written by save_pretrained, a hub id owner/name or a GGUF file"
            )


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


@functools.cache
def announce_code(path: str) -> None:
    """Say once that the code in a model's folder is executed."""
    log.warning("trust_remote_code is true: the Python files that come with the policy %r are executed", path)


def _reason(error: Exception) -> str:
    """Why a model cannot be loaded, for a message."""
    if "trust_remote_code" in str(error):
        return _OWN_CODE
    if "backend tokenizer" in str(error):
        return _NO_TOKENIZER
    said = first_line(str(error)) or type(error).__name__
    if isinstance(error, SafetensorError):
        return f"a file of its weights is damaged ({said})"
    if isinstance(error, RuntimeError):
        return f"its weights are not those of the model in its config.json ({said})"
    return said


def _count(parameters: Iterable[torch.nn.Parameter]) -> int:
    return sum({p: p.numel() for p in parameters}.values())
