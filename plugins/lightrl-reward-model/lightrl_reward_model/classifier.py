"""A sequence classifier from a Hugging Face folder or hub id, and its scores; what would score at random is refused."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lightrl import ConversationTokenizer, EncodedCompletion

Pooling = Literal["last", "mean"]


class Classifier:
    """A trunk and a linear head, read without gradient.

    The head of transformers looks for the last token that is not the padding token, which is the wrong one where padding and EOS
    are one token and a row ends with it. Here rows are padded on the right and their lengths are known.
    """

    def __init__(self, model: Any, label: int) -> None:
        """The decoder must have a linear head `score` (else a ValueError), of which the output `label` is the score."""
        head = getattr(model, "score", None)
        if not isinstance(head, nn.Linear):
            raise ValueError(
                f"{type(model).__name__} has no linear head `score` over its tokens, as decoders with one score per token have"
            )
        self._model = model.eval().requires_grad_(False)
        # a reward of bfloat16 could tell apart no more than 256 scores between two powers of two
        self._head, self._label = head.float(), label

    def to(self, device: torch.device | str) -> None:
        """Move it, if it is elsewhere."""
        self._model.to(device)

    def scores(self, rows: Sequence[EncodedCompletion], pooling: Pooling, batch_tokens: int | None) -> Tensor:
        """`[N]` float64, on the CPU: the head's output at the last token, or its mean over the response's tokens."""
        out = torch.zeros(len(rows), dtype=torch.float64)
        for batch in batches([len(row.ids) for row in rows], batch_tokens):
            out[batch] = self._batch([rows[i] for i in batch], pooling)
        return out

    def _batch(self, rows: list[EncodedCompletion], pooling: Pooling) -> Tensor:
        device = self._head.weight.device
        lengths = [len(row.ids) for row in rows]
        ids = torch.zeros(len(rows), max(lengths), dtype=torch.long)
        counted = torch.zeros(ids.shape, dtype=torch.bool)
        for i, row in enumerate(rows):
            ids[i, : lengths[i]] = torch.tensor(row.ids)
            counted[i, row.response if pooling == "mean" else lengths[i] - 1 : lengths[i]] = True
        there = torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None]
        # training may run in autocast, which is no concern of this model
        with torch.inference_mode(), torch.autocast(device.type, enabled=False):
            hidden = self._model.base_model(input_ids=ids.to(device), attention_mask=there.long().to(device), use_cache=False)
            logits = self._head(hidden.last_hidden_state[counted.to(device)].float())[:, self._label]
        of_tokens = logits.double().cpu().split(counted.sum(1).tolist())
        return torch.tensor([float(tokens.mean()) for tokens in of_tokens], dtype=torch.float64)


def batches(lengths: Sequence[int], budget: int | None) -> Iterator[list[int]]:
    """Cut rows, longest first, into batches of at most `budget` padded tokens; a longer row stands alone."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    while order:
        size = len(order) if budget is None else max(1, budget // lengths[order[0]])
        yield order[:size]
        order = order[size:]


def load(
    path: str, label: int | str | None, chat_template: str | None, max_length: int | None, dtype: str | None, attention: str | None
) -> tuple[Classifier, ConversationTokenizer]:
    """Model and tokenizer, on the CPU; the arguments are those of `RewardModel`.

    Raises:
        ValueError: the folder is not there, lacks weights, does not say which output is the score, or has another architecture.
    """
    from transformers import AutoTokenizer

    _must_exist(path)
    path = str(Path(path).expanduser()) if path.startswith("~") else path
    model = _model(path, dtype, attention)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"RewardModel: the tokenizer in {path!r} cannot be loaded: {_first_line(error)}") from error
    if chat_template is not None:
        tokenizer.chat_template = _text_or_file(chat_template)
    try:
        return Classifier(model, _output(path, label, model.config)), ConversationTokenizer(
            tokenizer, _limit(max_length, model.config, tokenizer)
        )
    except ValueError as error:
        raise ValueError(f"RewardModel: {path!r} is of no use here: {error}") from error


def refuse_unusable(path: str, label: int | str | None, chat_template: str | None, max_length: int | None) -> None:
    """Refuse what `load` would, as far as the folder's config tells; the arguments are those of `RewardModel`.

    Raises:
        ValueError: there is no such folder, or its model does not fit the arguments.
    """
    from transformers import AutoConfig

    _must_exist(path)
    if chat_template is not None:
        _text_or_file(chat_template)
    try:
        config = AutoConfig.from_pretrained(str(Path(path).expanduser()) if path.startswith("~") else path)
        # of another architecture only the weights tell whether it has a head
        if str((config.architectures or [""])[0]).endswith("ForSequenceClassification"):
            _output(path, label, config)
        _limit(max_length, config)
    except (OSError, ValueError) as error:
        raise ValueError(f"RewardModel: {path!r} is of no use here: {_first_line(error)}") from error


def _model(path: str, dtype: str | None, attention: str | None) -> Any:
    from transformers import AutoModelForSequenceClassification

    options = {"attn_implementation": attention} if attention else {}
    try:
        model, info = AutoModelForSequenceClassification.from_pretrained(
            path, dtype="auto" if dtype is None else getattr(torch, dtype), output_loading_info=True, trust_remote_code=False, **options
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise ValueError(f"RewardModel: the model in {path!r} cannot be loaded: {_first_line(error)}") from error
    missing = sorted(info["missing_keys"])
    if missing:
        kind = (model.config.architectures or ["a model that does not say what it is"])[0]
        raise ValueError(
            f"RewardModel: {path!r} ({kind}) has no weights for {', '.join(missing)}, which would be random and so would every score: "
            "give a folder that was saved as a sequence classifier (...ForSequenceClassification)"
        )
    return model


def _output(path: str, label: int | str | None, config: Any) -> int:
    names = {int(number): str(name) for number, name in config.id2label.items()}
    known = ", ".join(f"{number} ({name})" for number, name in sorted(names.items()))
    if label is None:
        if len(names) != 1:
            raise ValueError(f"it has {len(names)} outputs, and a reward is one number: set label to one of {known}")
        return 0
    by_name = {name: number for number, name in names.items()}
    number = label if isinstance(label, int) else by_name.get(label, int(label) if label.isdigit() else -1)
    if number not in names:
        raise ValueError(f"it has no output {label!r}; label can be one of {known}")
    return number


def _limit(max_length: int | None, config: Any, tokenizer: Any = None) -> int | None:
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    if max_length is None:
        # a tokenizer that was told no limit has one of 1e30
        stated = [limit for limit in (positions, getattr(tokenizer, "model_max_length", None)) if limit is not None and 0 < limit < 10**9]
        return min(stated, default=None)
    if positions is not None and max_length > positions:
        raise ValueError(f"it takes {positions} tokens at most, and max_length is {max_length}")
    return max_length


def _must_exist(path: str) -> None:
    folder = Path(path).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ValueError(f"RewardModel: the folder {path!r} holds no model: there is no config.json in it")
    elif path.startswith((".", "/", "~")) or path.count("/") != 1:
        raise ValueError(f"RewardModel: there is no folder {path!r}; give a folder written by save_pretrained, or a hub id owner/name")


def _text_or_file(value: str) -> str:
    if "{" in value:
        return value
    file = Path(value).expanduser()
    if not file.is_file():
        raise ValueError(f"RewardModel.chat_template: there is no file {value!r}, and it is no Jinja template either")
    return file.read_text()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
