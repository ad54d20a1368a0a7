"""A reward model from a Hugging Face folder or hub id; what would score at random is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from lightrl import ConversationTokenizer
from lightrl_reward_model.classifier import Classifier


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
