"""Policies that train adapters on a frozen base: LoRA, any other of PEFT's methods, or adapters from a folder."""

from __future__ import annotations

import logging
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from lightrl.policy.adapted import AdaptedPolicy
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.ranges import Count, Positive, Seed
from lightrl.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)


class AdapterSource(PolicySource):
    """A base from another source, with adapters in its layers."""

    base: PolicySource
    """Where the frozen weights come from, again on every resume."""
    seed: int = 0
    """Seed of the adapters' first weights."""

    @property
    def dtype(self) -> str:
        """The type of the base's weights; adapters on 16-bit weights are kept in float32."""
        return getattr(self.base, "dtype", "float32")

    def build(self) -> AdaptedPolicy:
        """See `PolicySource.build`. ValueError: the base cannot be had, or the adapters do not fit it."""
        return self._on(self.base.build())

    def build_lazy(self) -> AdaptedPolicy:
        policy = self._on(self.base.build_lazy())
        if any(parameter.isnan().any() for parameter in policy.parameters() if parameter.requires_grad):
            # what is made of NaN is NaN
            log.warning("the whole base is read, on every rank: the adapters begin from its weights")
            return self.build()
        return policy

    def _on(self, policy: Policy) -> AdaptedPolicy:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            adapted = self.adapt(policy.model)
        return AdaptedPolicy(adapted.train(), policy.tokenizer)

    @abstractmethod
    def adapt(self, model: PreTrainedModel) -> PeftModel:
        """Put trainable adapters into the layers of a causal LM, which is changed."""

    def tokenizer(self) -> Tokenizer:
        return self.base.tokenizer()

    def outline(self) -> Any:
        model = self.base.outline()
        with torch.device("meta"):
            return self.adapt(model).get_base_model()


class PeftPolicy(AdapterSource):
    """A base with adapters of any of PEFT's methods that work inside layers: LoRA with all its options, LoHa, LoKr, IA3, VeRA, ..."""

    def __init__(self, base: PolicySource, config: Callable[[], PeftConfig], seed: Seed = 0) -> None:
        """
        Args:
            base: which policy the adapters are put on; its weights stay as they are.
            config: PEFT's own, by import path: `class_path: peft.LoHaConfig`, `init_args: {r: 8, target_modules: all-linear}`.
            seed: of the adapters' first weights.
        """
        self.base, self.config, self.seed = base, config, seed

    def adapt(self, model: PreTrainedModel) -> PeftModel:
        return adapted(model, self.config())


class LoraPolicy(AdapterSource):
    """A base with low-rank adapters: only these are trained, stored in checkpoints, and given to the optimizer.

    W x + (alpha / r) B A x, with A `[r, in]` random, B `[out, r]` zero at first, so that the policy begins at its base. Adapters on
    16-bit weights are kept in float32. There is no dropout: two passes over one row must agree.

    Source: Hu et al. 2021, arXiv:2106.09685, eq. 3; Kalajdzievski 2023 (rank-stabilised), arXiv:2312.03732.
    """

    def __init__(
        self,
        base: PolicySource,
        r: Count = 16,
        alpha: Positive = 32,
        target_modules: str | list[str] = "all-linear",
        rank_stabilised: bool = False,
        seed: Seed = 0,
    ) -> None:
        """
        Args:
            base: which policy the adapters are put on; its weights stay as they are.
            r: rank; at least 1.
            alpha: scale of what the adapters add, divided by r.
            target_modules: names of the layers that get adapters, such as `[q_proj, v_proj]`, a regular expression, or `all-linear`:
                every linear layer but the head. Adapters on the head cost the memory of all its logits.
            rank_stabilised: divide alpha by the root of r instead.
            seed: of the adapters' first weights.

        Raises:
            ValueError: r below 1, or alpha not positive.
        """
        self.base, self.r, self.alpha = base, r, alpha
        self.target_modules, self.rank_stabilised, self.seed = target_modules, rank_stabilised, seed

    def adapt(self, model: PreTrainedModel) -> PeftModel:
        from peft import LoraConfig

        config = LoraConfig(
            r=self.r, lora_alpha=self.alpha, target_modules=self.target_modules, use_rslora=self.rank_stabilised, task_type="CAUSAL_LM"
        )
        return adapted(model, config)


class SavedAdapters(AdapterSource):
    """A base with adapters from a folder, to be trained further."""

    def __init__(self, base: PolicySource, path: str) -> None:
        """
        Args:
            base: the policy that the adapters were trained on.
            path: a folder with `adapter_config.json`, written by PEFT or by `lightrl export --adapter_only`.
        """
        self.base, self.path = base, path

    def outline(self) -> Any:
        from peft import PeftConfig

        self._must_exist()
        config: Any = PeftConfig.from_pretrained(str(Path(self.path).expanduser()), inference_mode=False)
        model = self.base.outline()
        with torch.device("meta"):
            return adapted(model, config).get_base_model()

    def adapt(self, model: PreTrainedModel) -> PeftModel:
        """See `AdapterSource.adapt`. ValueError: the folder holds no adapters, or they do not fit."""
        from peft import PeftConfig, PeftModel

        folder = self._must_exist()
        check_method(PeftConfig.from_pretrained(str(folder)))
        try:
            with _renamed_in_transformers():
                return PeftModel.from_pretrained(model, str(folder), is_trainable=True)
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"SavedAdapters: the adapters in {self.path!r} do not fit the base: {str(error).splitlines()[0]}") from error

    def _must_exist(self) -> Path:
        folder = Path(self.path).expanduser()
        if not (folder / "adapter_config.json").is_file():
            raise ValueError(f"SavedAdapters.path: there is no adapter_config.json in the folder {self.path!r}")
        if not (folder / "adapter_model.safetensors").is_file():
            raise ValueError(f"SavedAdapters.path: there is no adapter_model.safetensors in {self.path!r}; other formats are not read")
        return folder


def adapted(model: PreTrainedModel, config: PeftConfig) -> PeftModel:
    """The model with new adapters; a ValueError if the method does not work inside layers, or its targets are not in the model."""
    from peft import get_peft_model

    check_method(config)
    try:
        with _renamed_in_transformers():
            found = get_peft_model(model, config)
    except ValueError as error:
        names = sorted({name.rpartition(".")[2] for name, m in model.named_modules() if isinstance(m, nn.Linear)})
        raise ValueError(
            f"{type(config).__name__} does not fit {type(model).__name__}: {str(error).splitlines()[0]} Linear layers: {', '.join(names)}"
        ) from error
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if model.config.get_text_config().tie_word_embeddings and not (isinstance(head, nn.Linear) and isinstance(embedding, nn.Embedding)):
        raise ValueError(
            f"{type(config).__name__} adapts the head or the embeddings, and {type(model).__name__} has one weight for both: merged, the "
            "one would change the other. Leave lm_head and embed_tokens out of target_modules and modules_to_save"
        )
    return found


def check_method(config: PeftConfig) -> None:
    """Raise ValueError for a method that is not the base without its adapters, or that gives another ratio than 1 in a second pass."""
    name = type(config).__name__
    if config.is_prompt_learning or config.is_adaption_prompt or getattr(config, "alora_invocation_tokens", None):
        raise ValueError(f"{name}: the method works on the prompt and not inside layers, so log-probs of a row would be those of another")
    if str(getattr(config.peft_type, "value", config.peft_type)) == "ADALORA":
        raise ValueError(f"{name}: AdaLoRA moves its ranks in a call after every step, which no strategy makes; take peft.LoraConfig")
    if getattr(config, "bias", "none") != "none":
        raise ValueError(f"{name}: bias is {config.bias!r}, which trains the base itself; set it to none")
    dropouts = [key for key, value in vars(config).items() if key.endswith("dropout") and value]
    if dropouts:
        raise ValueError(f"{name}: {dropouts[0]} must be 0: with dropout two passes over one row differ, and so do their log-probs")
    if getattr(config, "init_lora_weights", True) not in (True, False, "gaussian", "orthogonal", "eva"):
        raise ValueError(
            f"{name}: init_lora_weights is {config.init_lora_weights!r}, which changes the base, so that a resume would begin from another "
            "one; take true, gaussian or orthogonal"
        )


@contextmanager
def _renamed_in_transformers() -> Iterator[None]:
    """Within, PEFT may use a name that transformers has changed, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.* is deprecated")
        yield
