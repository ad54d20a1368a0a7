"""Prompts for training, validation and test, drawn by position and resumed to the same place."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities import rank_zero_warn

from lightrl.data.loaders import PromptBatch, PromptBatches, StepNumbers
from lightrl.data.selection import Identities, PromptsById, Selection, hold_out, without
from lightrl.data.stream import MixedStream, PromptStream, indices_of_parts
from lightrl.data.survey import AtMost, Encode, Survey, length_of, must_be_the_same, order_of, refuse_too_long, survey
from lightrl.parts.prompts import PromptSource
from lightrl.ranges import BatchSize, Count, Natural, Seed, refuse_outside
from lightrl.types import JSON, Prompt
from lightrl.workers.waiting import shown


class PromptData(LightningDataModule):
    """Prompt sources with a split, a length limit, and one order over all ranks that survives a resume."""

    def __init__(
        self,
        train: PromptSource,
        validation: PromptSource | None = None,
        test: PromptSource | None = None,
        validation_size: Natural = 0,
        shuffle: bool = True,
        seed: Seed = 0,
        max_prompt_tokens: Count | None = None,
        too_long: Literal["drop", "raise"] = "drop",
        validation_batch_size: BatchSize = 256,
        other_prompts: Literal["raise", "restart"] = "raise",
    ) -> None:
        """
        Args:
            train: prompts that the policy learns from; those that also occur in validation or test are left out.
            validation: held-out prompts.
            test: prompts of the final test, and of `predict`.
            validation_size: prompts of `train` to hold out where no validation source is given.
            shuffle: a new order in every data epoch; false keeps the source's order.
            seed: of the order.
            max_prompt_tokens: longer prompts are dropped or refused; null: the policy's positions are the only limit.
            too_long: drop longer prompts, or refuse to start.
            validation_batch_size: prompts per batch and rank in validation, test and predict.
            other_prompts: where a checkpoint has other prompts, or another order: refuse to resume, or begin with the first of these.

        Raises:
            ValueError: the sources, the split and the sizes do not fit each other.
        """
        super().__init__()
        self.shuffle, self.seed, self.max_prompt_tokens, self.too_long = shuffle, seed, max_prompt_tokens, too_long
        self.validation_batch_size, self.other_prompts = validation_batch_size, other_prompts
        refuse_outside(type(self), vars(self) | {"validation_size": validation_size})
        self._check(validation, test, validation_size)
        self._dropped = {"overlap": 0, "too_long": 0}
        train, validation = self._split(train, validation, test, validation_size)
        named = {"train": train, "validation": validation, "test": test}
        self._all: dict[str, PromptSource] = {name: source for name, source in named.items() if source is not None}
        self._sources = dict(self._all)
        self._surveys: dict[str, Survey] = {}
        self.watch: Callable[[Prompt], None] | None = None
        """Is given every training prompt that `measure` keeps."""
        self._bound: tuple[Encode, int] | None = None
        self._measured = False
        self._stream: PromptStream | MixedStream | None = None
        self._by_id: PromptsById | None = None
        self._restored: dict[str, JSON] | None = None
        self._order: dict[str, JSON] = {}

    def measure(self, encode: Encode, limit: int | None, at_most: AtMost = lambda prompt: None) -> None:
        """Measure every prompt, and drop or refuse those that are too long; called once the policy exists, before any draw.

        Args:
            encode: the policy's own encoding.
            limit: most tokens of a prompt that the policy has room for; None: no limit of its own.
            at_most: at most how many tokens a prompt has, which spares encoding one that is certainly short enough; None: unknown.

        Raises:
            ValueError: a prompt cannot be encoded, is too long where that is refused, or none is left, of a part with a share either.
        """
        bound = min((b for b in (self.max_prompt_tokens, limit) if b is not None), default=None)
        self._dropped["too_long"], self._stream, self._by_id = 0, None, None
        self._bound = None if bound is None else (encode, bound)
        for name, source in self._all.items():
            if source.size is not None:
                watch = self.watch if name == "train" else None
                self._surveys[name] = survey(source, lambda p: length_of(p, encode, at_most, bound), bound, watch, "measuring prompts")
                self._sources[name] = self._fitting(name, source, self._surveys[name])
        if self._sources["train"].shares(0):
            # the stream is opened in the first rollout, which is late for a mixture that cannot be drawn from
            indices_of_parts(self._sources["train"])
        self._measured = True
        if self._restored is not None:
            self._open_stream()

    def draw(self, n: int | Sequence[int]) -> list[Prompt]:
        """The next training prompts of this rank; collective, every rank gives the same argument.

        Args:
            n: how many for each rank; a sequence gives every rank its own number.
        """
        train = self._sources["train"]
        drawn = [(train.prompt(index), epoch) for epoch, index in (self._stream or self._open_stream()).draw_in_epochs(n)]
        # the prompt of the first epoch is as its source has it
        prompts = [replace(prompt, meta={**prompt.meta, "epoch": epoch}) if epoch else prompt for prompt, epoch in drawn]
        if train.size is None and self._bound is not None:
            refuse_too_long(prompts, *self._bound)
        return prompts

    @property
    def rank(self) -> int:
        """The number of this process among those that draw, from 0."""
        return self._place()[0]

    @property
    def size(self) -> int | None:
        """How many training prompts there are; None if there is no end."""
        return self._sources["train"].size

    def prompt(self, name: str) -> Prompt:
        """The training prompt with this id, as in the first data epoch; a ValueError if there is none, or the source is endless."""
        if self._by_id is None:
            self._by_id = PromptsById(self._sources["train"])
        return self._by_id.prompt(name)

    def training_prompts(self) -> Iterator[Prompt]:
        """Every training prompt of a sized source once, in its order; none of an endless one."""
        train = self._sources["train"]
        return (train.prompt(index) for index in shown(range(train.size or 0), "reading prompts"))

    def placed_prompts(self) -> Iterator[tuple[str, Prompt]]:
        """Every prompt of the sized sources once, with the place where it stands."""
        for source in self._sources.values():
            for index in shown(range(source.size or 0), "reading prompts"):
                yield source.place(index), source.prompt(index)

    def columns(self) -> set[str]:
        """The columns that every prompt has, for rewards that name them."""
        return set.intersection(*(found for name in self._sources if (found := self._survey(name).columns) is not None))

    def sizes(self) -> dict[str, int | None]:
        """Numbers of prompts to train on (None: endless), for validation and for test, and of those that were dropped, by the reason."""
        counts: dict[str, int | None] = {n: self._sources[n].size if n in self._sources else 0 for n in ("train", "validation", "test")}
        return counts | {f"dropped_{reason}": count for reason, count in self._dropped.items()}

    def train_dataloader(self) -> StepNumbers:
        """One number per training step; the step draws its prompts itself."""
        module = getattr(self.trainer, "lightning_module", None)
        if module is None:
            raise ValueError("the training prompts belong to a run: give the data module to trainer.fit")
        return StepNumbers(module.steps_per_epoch(self._sources["train"].size))

    def val_dataloader(self) -> PromptBatches | list[Any]:
        """Batches of validation prompts; nothing without any."""
        return self._batches("validation")

    def test_dataloader(self) -> PromptBatches | list[Any]:
        """Batches of test prompts; nothing without any."""
        return self._batches("test")

    def predict_dataloader(self) -> PromptBatches | list[Any]:
        """Batches of test prompts, or of validation prompts without them."""
        return self._batches("test" if "test" in self._sources else "validation")

    def transfer_batch_to_device(self, batch: PromptBatch, device: object, dataloader_idx: int) -> PromptBatch:
        """Prompts hold no tensors; Lightning would take their frozen dataclass apart."""
        return batch

    def state_dict(self) -> dict[str, JSON]:
        """The position in the order, and the identity of its prompts."""
        if self._stream is None and self._restored is not None:
            return self._restored
        stream = self._stream or self._open_stream()
        return {"stream": stream.state_dict(), "order": self._order}

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Go on where `state_dict` was taken.

        Raises:
            ValueError: the training prompts or their order are not those of the checkpoint (said later if prompts are not measured yet).
        """
        if self.trainer is not None and self.trainer.state.fn != "fit":
            return
        self._restored, self._stream = state, None
        if self._measured:
            self._open_stream()

    def _open_stream(self) -> PromptStream | MixedStream:
        train, order = self._sources["train"], (self.shuffle, self.seed)
        mixed = bool(train.shares(0))
        stream = MixedStream(train, *order, *self._place()) if mixed else PromptStream(train.size, *order, *self._place())
        identity = order_of(self._survey("train"), train, *order)
        if self._restored is not None:
            self._resume(stream, identity, self._restored)
            self._restored = None
        self._stream, self._order = stream, identity
        return stream

    def _survey(self, name: str) -> Survey:
        if name not in self._surveys:
            self._surveys[name] = survey(self._sources[name])
        return self._surveys[name]

    def _resume(self, stream: PromptStream | MixedStream, order: dict[str, JSON], restored: dict[str, JSON]) -> None:
        try:
            must_be_the_same(order, restored["order"])
        except ValueError as error:
            if self.other_prompts == "raise":
                raise
            rank_zero_warn(f"{str(error).partition('. ')[0]}: their order begins anew, as data.other_prompts says")
        else:
            stream.load_state_dict(restored["stream"])

    def _split(
        self, train: PromptSource, validation: PromptSource | None, test: PromptSource | None, held: int
    ) -> tuple[PromptSource, PromptSource | None]:
        sources = [source for source in (train, validation, test) if source is not None]
        if len(sources) == 1 and not held:
            return train, validation
        identities = Identities(sources)
        if held:
            train, validation = hold_out(train, held, identities)
        others = [source for source in (validation, test) if source is not None]
        if train.size is None:
            return train, validation
        kept = without(train, others, identities)
        self._dropped["overlap"] = dropped = train.size - (kept.size or 0)
        if dropped:
            rank_zero_warn(f"{dropped} of {train.size} training prompts occur in validation or test and are not trained on")
        return kept, validation

    def _fitting(self, name: str, source: PromptSource, found: Survey) -> PromptSource:
        if found.example is None:
            return source
        what = f"of {source.size} {name} prompts, {found}"
        if self.too_long == "raise":
            raise ValueError(f"{what}: raise data.max_prompt_tokens or the policy's room, or set data.too_long to drop")
        if not found.fitting:
            raise ValueError(f"{what}: none is left. Raise data.max_prompt_tokens, or lower max_new_tokens to leave room for the prompt")
        rank_zero_warn(f"{what}: they are dropped")
        self._dropped["too_long"] += found.too_long
        return Selection(source, found.fitting)

    def _batches(self, name: str) -> PromptBatches | list[Any]:
        if name not in self._sources:
            # no validation source was given, so there is nothing to warn about
            warnings.filterwarnings("ignore", "Total length of `list` across ranks is zero")
            return []
        return PromptBatches(self._sources[name], self.validation_batch_size, *self._place())

    def _place(self) -> tuple[int, int]:
        if self.trainer is None:
            return 0, 1
        # the strategy knows which ranks share their data, as tensor-parallel ones do
        place = self.trainer.distributed_sampler_kwargs or {"rank": 0, "num_replicas": 1}
        return place["rank"], place["num_replicas"]

    def _check(self, validation: PromptSource | None, test: PromptSource | None, validation_size: int) -> None:
        if validation_size and validation is not None:
            raise ValueError(f"data has both a validation source and validation_size {validation_size}: give one of them")
        for name, source in (("validation", validation), ("test", test)):
            if source is not None and source.size is None:
                raise ValueError(f"data.{name} is endless, and an evaluation over it would never end: give a source with a size")
