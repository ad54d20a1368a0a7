"""The columns of a file with prompts, answers and completions: those of the config's training data, or their usual names."""

from __future__ import annotations

import argparse
from string import Formatter
from typing import Any

from lightrl.config.describe.choice import Choice
from lightrl.config.read.refusals import ConfigError
from lightrl.data.completion_file import CompletionFile
from lightrl.data.files import table_rows
from lightrl.data.records import Records
from lightrl.registry.classes import closest

COMPLETION = ("completion", "response")
"""Names of the column with the completion, the first that the file has."""


def completion_file(options: argparse.Namespace, data: Choice) -> CompletionFile:
    """The completions of `--data`, whose rows become prompts as the training source of the config's data module says.

    Raises:
        ConfigError: the file cannot be read, or has no such column.
    """
    train = data.value("train") if "train" in data.takes else None
    given = {n: train.value(n) for n in train.takes} if isinstance(train, Choice) and issubclass(train.cls, Records) else {}
    try:
        first = next((row for _, row in table_rows(options.data)), None)
        if first is None:
            raise ConfigError("--data", f"the file {options.data!r} holds no rows.")
        columns = list(map(str, first))
        asked = _prompt(options, given, columns)
        plain = "template" in asked or isinstance(first[asked["prompt"]], str)
        return CompletionFile(
            options.data,
            completion=_column("completion", options.completion_field, COMPLETION, columns),
            answer=_answer(options, given, columns),
            # a conversation in the file already has the system message with which it was held
            system=given.get("system") if plain else None,
            chat=bool(given.get("chat", False)),
            limit=options.limit,
            **asked,
        )
    except ValueError as error:
        raise ConfigError("--data", str(error)) from error


def _prompt(options: argparse.Namespace, given: dict[str, Any], columns: list[str]) -> dict[str, str]:
    template = given.get("template")
    names = {name for _, name, _, _ in Formatter().parse(template or "") if name}
    if options.prompt_field is None and template is not None and names <= set(columns):
        return {"template": template}
    return {"prompt": _column("prompt", options.prompt_field, (given.get("prompt"), "prompt"), columns)}


def _answer(options: argparse.Namespace, given: dict[str, Any], columns: list[str]) -> str | None:
    names = (given.get("answer"), "answer")
    if options.answer_field is None and not any(name in columns for name in names):
        return None
    return _column("answer", options.answer_field, names, columns)


def _column(what: str, wanted: str | None, usual: tuple[str | None, ...], columns: list[str]) -> str:
    if wanted is not None and wanted not in columns:
        raise ConfigError(f"--{what}-field", f"there is no column {wanted!r}.{closest(wanted, columns)} There are: {', '.join(columns)}.")
    found = wanted or next((name for name in usual if name in columns), None)
    if found is None:
        looked = " or ".join(dict.fromkeys(repr(name) for name in usual if name))
        problem = f"no column holds the {what}: looked for {looked}. There are: {', '.join(columns)}."
        raise ConfigError("--data", problem, f"Type: --{what}-field COLUMN")
    return found
