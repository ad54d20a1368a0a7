"""The built-in rollout engine: decodes with the policy's own modules."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Literal

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor, nn

from lightrl.ops.agreement import LIMITS
from lightrl.ops.pretrained import ReplacedTensors
from lightrl.parts.engine import PolicyWeights, Request, Result, RolloutEngine, SampledPolicy, Sampling
from lightrl.ranges import Count, Natural, Seed, Temperature
from lightrl.rollout.decode.decoding_rows import AdmittedRows, DecodedRow
from lightrl.rollout.decode.slices import RequestBatch, Slices, batches, with_one_context
from lightrl.rows import onto

if TYPE_CHECKING:
    from lightrl.rollout.decode.incremental import IncrementalModel
    from lightrl.rollout.decode.kept_rows import KeptRow
    from lightrl.rollout.decode.step_choice import StepChoice


class TransformersEngine(RolloutEngine):
    """Generates with the policy being trained, token by token, for any Hugging Face causal LM.

    A context is read once for all its requests, and what all contexts of a batch begin with once for all of them, where that saves 64
    tokens or more. Finished rows leave the batch, and others of their slice take their places. Keys and values of an episode stay until
    its next turn, so that only what was added is read. Models with sliding windows or recurrent states read whole contexts, and their
    rows join no others. The tokens of a request depend on its context and its key, not on the rows beside it.
    """

    exact_logprobs = True
    in_process = True
    records = True

    def __init__(
        self,
        max_new_tokens: Count = 256,
        temperature: Temperature = 1.0,
        top_p: Annotated[float, Gt(0), Le(1)] = 1.0,
        top_k: Natural = 0,
        min_p: Annotated[float, Ge(0), Lt(1)] = 0.0,
        stop: list[str] | None = None,
        max_rows: Count | None = None,
        slice_rows: Count | None = None,
        seed: Seed = 0,
        dtype: Literal["bfloat16"] | None = None,
    ) -> None:
        """
        Args:
            max_new_tokens: limit on the tokens of a completion, EOS included.
            temperature: divides the logits; 0 takes the likeliest token.
            top_p: keep the likeliest tokens whose probabilities add up to this; in (0, 1].
            top_k: keep this many of the likeliest tokens; 0 keeps all.
            min_p: keep tokens at least this likely relative to the likeliest; in [0, 1).
            stop: a completion ends as soon as its text contains one of these.
            max_rows: completions generated at a time, which bounds the memory of keys and values. null: all of a slice. Where the memory
                does not suffice, the engine goes on with half of them, and says so.
            slice_rows: completions of a slice: those of one slice share batches, and episodes that begin in it stay in it. Engines in
                workers take a slice at a time. null: all of a call.
            seed: of the random numbers.
            dtype: that layers multiply in while rows are decoded, which is quicker on processors that have such products; the trainer
                computes the log-probs again, and `algorithm.correction` may weight by the difference. null: the trainer's.

        Raises:
            ValueError: an argument outside its range.
        """
        self.sampling = Sampling(max_new_tokens, temperature, top_p, top_k, min_p, tuple(stop or ()))
        self.max_rows, self.slice_rows, self.seed = max_rows, slice_rows, seed
        self.dtype = dtype
        if dtype is not None:
            self.exact_logprobs, self.logprob_tolerance = False, LIMITS[torch.bfloat16].mean
        self._version = 0
        self._policy: SampledPolicy | None = None
        self._model: IncrementalModel | None = None
        self._steps: StepChoice | None = None
        self._copies: ReplacedTensors | None = None
        self._waiting: deque[RequestBatch] = deque()
        self._decoding: tuple[RequestBatch, Iterator[list[Result]]] | None = None
        self._kept: dict[int, KeptRow] = {}
        self._slices = Slices(slice_rows)
        self._fitting = max_rows
        """Completions at a time, as far as is known of the memory."""
        self._lacked: int | None = None
        """Completions at a time for which memory has not sufficed, until a warning has said so."""

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        """Use the trainer's own modules, as they are now. RuntimeError: requests are under way."""
        if self._waiting or self._decoding is not None:
            raise RuntimeError("TransformersEngine.update_weights was called while requests are under way")
        self._policy, self._version = weights.policy, version
        self._model = self._copies = None
        self._kept.clear()
        self._slices.clear()

    def submit(self, requests: Sequence[Request]) -> None:
        """Take requests; those of one call with equal settings share batches; a RuntimeError if `update_weights` was never called."""
        if self._policy is None:
            raise RuntimeError("TransformersEngine was asked before update_weights(weights, version): there are no weights to sample from")
        for part in self._slices.cut(requests):
            self._waiting.extend(self._batched(part.requests))

    @torch.no_grad()
    def results(self) -> list[Result]:
        """Decode until a row has ended. torch.OutOfMemoryError: there is not enough for one row."""
        while self._decoding is not None or self._waiting:
            if self._decoding is None:
                batch = self._waiting.popleft()
                self._decoding = batch, self._decode(batch)
            if (found := self._next(*self._decoding)) is not None:
                return found
        return []

    def forget(self, episodes: Collection[int]) -> None:
        over = frozenset(episodes)
        self._slices.forget(over)
        for episode in over & self._kept.keys():
            del self._kept[episode]
        for batch in self._waiting:
            batch.drop(over)
        self._waiting = deque(batch for batch in self._waiting if batch.left)
        if self._decoding is not None and self._decoding[0].forget(over):
            self._decoding = None
        if not (self._waiting or self._decoding or self._kept):
            # training wants this memory
            self._model = self._copies = None

    def _ready(self) -> IncrementalModel:
        from lightrl.rollout.decode.incremental import IncrementalModel
        from lightrl.rollout.decode.step_choice import StepChoice

        if self._policy is None:
            raise RuntimeError("TransformersEngine has no weights yet: call update_weights first")
        model, longest = self._policy.model, self._policy.max_positions
        if self._steps is None or self._steps.model is not model:
            self._steps = StepChoice(model, longest)
        if self._model is None:
            self._model = IncrementalModel(model, longest, self._steps.step, {output.name: output for output in self.recorded})
        return self._model

    def _next(self, batch: RequestBatch, rows: Iterator[list[Result]]) -> list[Result] | None:
        """The next results of a batch; None: it is over, or has to begin again with fewer rows."""
        model = self._ready().model
        narrow = nullcontext() if self.dtype is None else torch.autocast(model.device.type, torch.bfloat16)
        try:
            with _evaluation_mode(model), narrow, self._ready_copies().in_place():
                found = next(rows, None)
        except torch.OutOfMemoryError:
            if batch.most <= 1:
                raise
        else:
            if found is None:
                self._decoding = None
            else:
                batch.answered.update(result.id for result in found)
                self._tell_fitting()
            return found
        # not before the error is gone, whose frames hold the tensors of the batch
        self._begin_again(batch)
        return None

    def _begin_again(self, batch: RequestBatch) -> None:
        """Decode what has no result yet from its beginning, half as many rows at a time."""
        self._decoding = self._model = None
        if torch.accelerator.is_available():
            torch.accelerator.empty_cache()
        self._lacked = self._lacked or batch.most
        self._fitting = min(batch.most // 2, self._fitting or batch.most)
        begun, waiting = batch.unanswered()
        for request in begun:
            self._kept.pop(request.episode, None)
        self._waiting.extendleft(reversed(list(self._batched([*begun, *waiting]))))

    def _tell_fitting(self) -> None:
        if self._lacked is not None:
            warnings.warn(
                f"the memory did not suffice for {self._lacked} completions at a time: from here on there are {self._fitting}, with the "
                f"same tokens.\nTo begin with them: --model.engine.max_rows {self._fitting}",
                stacklevel=4,
            )
            self._lacked = None

    def _batched(self, requests: Sequence[Request]) -> Iterator[RequestBatch]:
        """Batches of requests, apart those whose episodes are kept; neighbours with one context are read once."""
        model = self._ready()
        for kept in (False, True):
            alike = [request for request in requests if (request.episode in self._kept) == kept]
            contexts = [[request] for request in alike] if kept else with_one_context(alike)
            lengths = [len(rows[0].context) for rows in contexts]
            cuts = list(batches(lengths, [len(rows) for rows in contexts], self._fitting, kept or model.takes_padding))
            # one batch, if rows can join others
            for shares in [list(chain.from_iterable(cuts))] if model.keeps_rows and cuts else cuts:
                yield RequestBatch(([contexts[share.context][row] for row in share.rows] for share in shares), self._fitting, kept)

    def _ready_copies(self) -> ReplacedTensors:
        from lightrl.rollout.decode.model_forward import compute_copies

        if self._copies is None:
            self._copies = compute_copies(self._ready().model)
        return self._copies

    def _decode(self, batch: RequestBatch) -> Iterator[list[Result]]:
        from lightrl.rollout.decode.decoding import Decoding, StopStrings

        model, policy, first = self._ready(), self._policy, batch.first
        if policy is None:
            return
        read: list[int] = []

        def admit(present: int) -> AdmittedRows | None:
            requests = batch.take(present)
            return self._admitted(model, requests, batch, present, read) if requests else None

        stop = first.sampling.stop
        stops = StopStrings(stop, policy.decode, policy.tokenizer.all_special_ids) if stop else None
        decoding = Decoding(model, first.sampling, first.ends, stops)
        ended: list[Result] = []
        over = 0
        for rows in decoding.run(admit):
            over += len(rows)
            wanted = [(batch.begun[row.row], row) for row in rows if batch.begun[row.row].episode not in batch.forgotten]
            self._keep(model, [(request, row) for request, row in wanted if request.open])
            for request, row in wanted:
                versions = ((self._version, len(row.tokens)),)
                reason: Literal["stop", "length"] = "stop" if row.stopped else "length"
                ended.append(Result(request.id, row.tokens, row.logprobs, reason, versions, read[row.row], row.heard))
            # whoever goes on is answered while the others are decoded
            if (batch.left or over < len(batch.begun)) and any(request.open for request, _ in wanted):
                yield ended
                ended = []
        # nobody may ask again before the update, which wants this memory
        model.release()
        if ended:
            yield ended

    def _admitted(
        self, model: IncrementalModel, requests: list[Request], batch: RequestBatch, present: int, read: list[int]
    ) -> AdmittedRows:
        """Read requests that have just begun, below the `present` rows; `read` grows by the tokens that were read for each row."""
        reader = model.another() if present else model
        logits, tokens = self._read(reader, requests, batch.kept)
        read += tokens
        if present:
            model.join(reader)
        seeds = onto(torch.tensor([request.seed for request in requests]), logits.device)
        limits = torch.tensor([request.limit for request in requests])
        return AdmittedRows(logits, seeds, limits, batch.awaited)

    def _read(self, model: IncrementalModel, requests: Sequence[Request], kept: bool) -> tuple[Tensor, list[int]]:
        """`[n, V]` logits of the first tokens, and the tokens that were read for each row."""
        if kept:
            rows = [self._kept.pop(request.episode) for request in requests]
            further = [request.context[row.length :] for request, row in zip(requests, rows, strict=True)]
            return model.resume(rows, further), [len(ids) for ids in further]
        contexts = with_one_context(requests)
        prompts, repeats = [alike[0].context for alike in contexts], [len(alike) for alike in contexts]
        shared, most = model.common_beginning(prompts), max(request.limit for request in requests)
        # the first row is the one for which it is read
        read = [(len(ids) - shared * (i > 0)) * (j == 0) for i, ids in enumerate(prompts) for j in range(repeats[i])]
        return model.prefill(prompts, repeats, most, shared), read

    def _keep(self, model: IncrementalModel, rows: Sequence[tuple[Request, DecodedRow]]) -> None:
        if rows and model.keeps_rows:
            # the last token was sampled and has not been read
            lengths = [len(request.context) + len(row.tokens) - 1 for request, row in rows]
            kept = model.take_out([row.place for _, row in rows], lengths)
            self._kept.update({request.episode: row for (request, _), row in zip(rows, kept, strict=True)})


@contextmanager
def _evaluation_mode(model: nn.Module) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
