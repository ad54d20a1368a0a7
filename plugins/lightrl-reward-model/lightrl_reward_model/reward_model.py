"""A model that has learnt from comparisons which answers people prefer, as reward."""

import logging
import math
from collections.abc import Mapping, Set
from dataclasses import astuple
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from lightrl import BatchReward, ConversationTokenizer, EncodedCompletion, Rollout, Statistic, TooLongConversation, WithStatistics
from lightrl_reward_model.classifier import Classifier, Pooling, load, refuse_unusable
from lightrl_reward_model.whitening import Moments, RunningWhitening

log = logging.getLogger(__name__)


class RewardModel(BatchReward):
    """The score of prompt and completion by a sequence classifier.

    s = head(h_T) at the last token T, or the mean of head(h_t) over the response's tokens; then, each where it is asked for,
    s <- 1 / (1 + exp(-s)), s <- (s - mean) / std over earlier rollouts, and s <- min(max(s, low), high).

    The model has a tokenizer and a chat template of its own: it reads the text of the completion, not the policy's tokens. It is no
    part of the policy or of checkpoints, and every rank has a copy.

    Source: Ziegler et al. 2019, arXiv:1909.08593, section 2.1; Stiennon et al. 2020, arXiv:2009.01325, section 3.4; scaling and
    clipping of scores: Zheng et al. 2023, arXiv:2307.04964, section 5.3.1.
    """

    def __init__(
        self,
        path: str,
        label: int | str | None = None,
        pooling: Pooling = "last",
        chat_template: str | None = None,
        max_length: Annotated[int, Ge(1)] | None = None,
        sigmoid: bool = False,
        whiten: RunningWhitening | None = None,
        clip: float | tuple[float, float] | None = None,
        batch_tokens: Annotated[int, Ge(1)] | None = 16384,
        device: str | None = None,
        dtype: Literal["float32", "bfloat16", "float16", "float64"] | None = None,
        attention: str | None = None,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            path: a folder written by `save_pretrained`, or a hub id such as `Skywork/Skywork-Reward-V2-Qwen3-0.6B`.
            label: which output is the score, by its name in the model's `id2label` or its number; null: the only one there is.
            pooling: `last` scores at the last token, as such models are trained; `mean` over the response's tokens.
            chat_template: a Jinja template, or the path of a file with one, in place of the tokenizer's own.
            max_length: tokens that the model reads at most; a longer row loses the beginning of its prompt. null: as the model and
                its tokenizer say.
            sigmoid: the probability of being preferred in place of its logit.
            whiten: measure scores by those of earlier rollouts; null: as they are.
            clip: bounds of the score in the end, one number for -clip to clip, or a pair; null: none.
            batch_tokens: padded tokens of one forward pass, which bounds its memory; null: all rows at once.
            device: for example `cuda:1`; null: where the policy is.
            dtype: of the weights in memory; null: as they were saved. The head is always of float32.
            attention: `sdpa`, `eager`, `flash_attention_2`, ...; null takes the model's default.
            **kwargs: weight and the other arguments of every reward.

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(**kwargs)
        low, high = (-math.inf, math.inf) if clip is None else clip if isinstance(clip, (tuple, list)) else (-clip, clip)
        if not low < high:
            raise ValueError(f"RewardModel needs clip > 0 or a pair low < high, got {clip}")

        if attention is not None and "/" in attention:
            raise ValueError(f"RewardModel executes no code of the hub, as attention {attention!r} is")
        self.path, self.label, self.pooling, self.chat_template, self.max_length = path, label, pooling, chat_template, max_length
        self.sigmoid, self.whiten, self.clip = sigmoid, whiten, clip
        self.batch_tokens, self.device, self.dtype, self.attention = batch_tokens, device, dtype, attention
        self._bounds = (low, high)
        self._so_far = Moments()
        self._loaded: tuple[Classifier, ConversationTokenizer] | None = None

    def check(self, columns: Set[str]) -> None:
        """See `Reward.check`: the folder must hold a model with one score, as far as its config says."""
        refuse_unusable(self.path, self.label, self.chat_template, self.max_length)

    def start(self) -> None:
        """Load the model, which moves to its device with the first rollout. ValueError: it cannot be loaded, or would score at random."""
        self._ready()

    def close(self) -> None:
        self._loaded = None

    def score(self, rollout: Rollout) -> WithStatistics:
        classifier, tokenizer = self._ready()
        classifier.to(self.device or rollout.group.device)
        rows = self._tokens(tokenizer, rollout)
        fitting = [i for i, row in enumerate(rows) if row is not None]
        raw = torch.full((len(rows),), math.nan, dtype=torch.float64)
        raw[fitting] = classifier.scores([row for row in rows if row is not None], self.pooling, self.batch_tokens)
        raw = raw.sigmoid() if self.sigmoid else raw
        scores = raw if self.whiten is None else self.whiten.whitened(raw, self._so_far)
        statistics = {
            "raw": raw,
            "truncated": torch.tensor([float(row is not None and row.truncated) for row in rows]),
            "too_long": torch.tensor([float(row is None) for row in rows]),
        }
        return WithStatistics(scores.clamp(*self._bounds).float(), statistics | self._for_whitening(raw))

    def observe(self, statistics: Mapping[str, float]) -> None:
        rows = statistics.get("whitening/rows", 0.0)
        if self.whiten is None or rows == 0:
            return
        mean, shift = statistics["raw"], statistics["raw"] - self.whiten.scale(self._so_far)[0]
        variance = max(0.0, statistics["whitening/spread"] - shift**2)
        self._so_far = self.whiten.after(self._so_far, Moments(rows, mean, variance))

    def state_dict(self) -> dict[str, Any]:
        return {"whitening": list(astuple(self._so_far))} if self._so_far.rows else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._so_far = Moments(*state.get("whitening", ()))

    def __getstate__(self) -> dict[str, Any]:
        # a copy in another process reads the folder itself
        return {**vars(self), "_loaded": None}

    def _ready(self) -> tuple[Classifier, ConversationTokenizer]:
        if self._loaded is None:
            self._loaded = load(self.path, self.label, self.chat_template, self.max_length, self.dtype, self.attention)
        return self._loaded

    def _tokens(self, tokenizer: ConversationTokenizer, rollout: Rollout) -> list[EncodedCompletion | None]:
        """The tokens of each row that the model reads; None where the response alone is too long."""
        rows: list[EncodedCompletion | None] = []
        refused: list[TooLongConversation] = []
        for prompt, completion in zip(rollout.prompts, rollout.completions, strict=True):
            try:
                rows.append(tokenizer.encode(prompt, completion))
            except TooLongConversation as error:
                rows.append(None)
                refused.append(error)
        if refused:
            log.warning("%d of %d rows have no score; first: %s", len(refused), len(rows), refused[0])
        return rows

    def _for_whitening(self, raw: Tensor) -> dict[str, Tensor | Statistic]:
        """Numbers by which `observe` can tell mean and variance over all ranks, and those that this rollout is measured by."""
        if self.whiten is None:
            return {}
        mean, std = self.whiten.scale(self._so_far)
        return {
            "whitening/rows": Statistic((~raw.isnan()).double(), "sum"),
            # around the mean so far, so that a mean far from 0 leaves the variance its digits
            "whitening/spread": (raw - mean) ** 2,
            "whitening/mean": torch.full_like(raw, mean),
            "whitening/std": torch.full_like(raw, std),
        }
