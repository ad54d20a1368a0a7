"""Prompts from the rows of a data set."""

from __future__ import annotations

import difflib
import json
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from string import Formatter

import numpy as np

from lightrl.data.stored_lines import StoredLines
from lightrl.parts.prompts import PromptSource, content_hash, is_empty
from lightrl.prompt import FIELDS
from lightrl.ranges import Count
from lightrl.text.turns import TURN_WEIGHTS, turn_weights
from lightrl.types import JSON, Message, Prompt
from lightrl.workers.waiting import shown

Record = tuple[str, Mapping[str, JSON]]
"""Where a row stands, for messages (`train.jsonl:17`), and its columns."""
_WRITTEN = json.JSONEncoder(check_circular=False).encode


class Records(PromptSource):
    """Prompts made of the rows of a table; subclasses say where the rows come from."""

    def __init__(
        self,
        prompt: str = "prompt",
        answer: str | None = "answer",
        id: str | None = None,  # noqa: A002 - the field of Prompt
        system: str | None = None,
        chat: bool = True,
        rendered: bool = False,
        template: str | None = None,
        columns: list[str] | None = None,
        limit: Count | None = None,
    ) -> None:
        """
        Args:
            prompt: the column with the prompt: a string, or a list of messages `{role, content}`, which may have `tool_calls`, `name`,
                `tool_call_id` or `reasoning_content` if the chat template writes them; where whole conversations are learnt from, a
                message of the assistant may have `train: false`, or a `weight` in the loss.
            answer: the column with the reference answer; null if there is none.
            id: the column with a unique id; null makes ids from the content, so that they survive reordering.
            system: a system prompt put before every conversation.
            chat: a string becomes the user's message, for policies with a chat template; false takes it as raw text.
            rendered: a string is what a chat template has written, so that control tokens in it count. Otherwise they are plain text.
            template: makes the prompt from several columns, `"Question: {question}\\nAnswer:"`; `{{` and `}}` are literal braces.
            columns: which other columns are kept for rewards; null keeps all.
            limit: only this many rows, the first ones; null: all.

        Raises:
            ValueError: arguments that exclude each other, a field that no column has, a row that is no prompt, or an id that occurs twice.
        """
        self.prompt_field, self.answer, self.id, self.system, self.chat = prompt, answer, id, system, chat
        self.rendered, self.template, self.columns, self.limit = rendered, template, columns, limit
        self._lines, self._contents = StoredLines(), array("Q")
        self._numbers: dict[int, int] = {}
        self._empty: set[int] = set()
        self._check()

    @property
    def size(self) -> int:
        return len(self._lines)

    def prompt(self, index: int) -> Prompt:
        _, name, text, messages, answer, columns, meta = json.loads(self._lines[index])
        if self.id is None:
            number = self._numbers.get(index, 1)
            name = f"{self._contents[index]:016x}" + (f"-{number}" if number > 1 else "")
        return Prompt(
            id=name,
            text=text,
            messages=None if messages is None else tuple(messages),
            answer=answer,
            columns=columns,
            meta=meta,
            rendered=self.rendered,
        )

    def place(self, index: int) -> str:
        """The file and the line, or the data set and the row."""
        return str(json.loads(self._lines[index])[0])

    def content(self, index: int) -> str:
        """As its hash was computed when the row was read."""
        # that of an empty prompt depends on its id, which may be made of the first hash
        return content_hash(self.prompt(index)) if index in self._empty else f"{self._contents[index]:016x}"

    def _read(self, source: str, records: Iterable[Record]) -> None:
        names = set[str]()
        for place, row in shown(islice(records, self.limit), f"reading {source}"):
            prompt = self._prompt_of(place, row)
            if prompt.id in names:
                first = next(self.place(i) for i in range(self.size) if self.prompt(i).id == prompt.id)
                raise ValueError(f"{place}: the id {prompt.id!r} of column {self.id!r} stands already in {first}; ids must be unique")
            if self.id is not None:
                names.add(prompt.id)
            if is_empty(prompt):
                self._empty.add(self.size)
            self._contents.append(int(content_hash(prompt), 16))
            kept = [place, prompt.id, prompt.text, prompt.messages, prompt.answer, prompt.columns, prompt.meta]
            self._lines.append(_WRITTEN(kept).encode())
        if not self._lines:
            raise ValueError(f"{source} holds no rows")
        self._numbers = repeats(self._contents)

    def _prompt_of(self, place: str, row: Mapping[str, JSON]) -> Prompt:
        text, messages = self._asked(place, row)
        answer = None if self.answer is None else _column(place, row, self.answer, "answer", "; or null if there is no reference answer")
        used = {self.answer, self.id, None if self.template else self.prompt_field}
        kept = [name for name in row if name not in used] if self.columns is None else self.columns
        return Prompt(
            id="" if self.id is None else str(_column(place, row, self.id, "id")),
            text=text,
            messages=messages,
            answer=json_value(place, self.answer or "", answer),
            columns={name: json_value(place, name, _column(place, row, name, "columns")) for name in kept},
            meta=self._weights(place, row),
            rendered=self.rendered,
        )

    def _asked(self, place: str, row: Mapping[str, JSON]) -> tuple[str | None, tuple[Message, ...] | None]:
        value = _column(place, row, self.prompt_field, "prompt") if self.template is None else self._filled(self.template, place, row)
        json_value(place, self.prompt_field, value)
        if isinstance(value, str) and (self.rendered or not self.chat):
            return value, None
        if self.rendered:
            raise ValueError(f"{place}: column {self.prompt_field!r} must hold a rendered text, got a {type(value).__name__}")
        messages = ({"role": "user", "content": value},) if isinstance(value, str) else _messages(place, self.prompt_field, value)
        if self.system is None:
            return None, messages
        if messages[0]["role"] == "system":
            raise ValueError(f"{place}: the conversation has a system message of its own, so `system` cannot be given")
        return None, ({"role": "system", "content": self.system}, *messages)

    def _weights(self, place: str, row: Mapping[str, JSON]) -> dict[str, JSON]:
        turns = None if self.template is not None else row[self.prompt_field]
        if not isinstance(turns, list):
            return {}
        found = turn_weights(f"{place}: column {self.prompt_field!r}", turns)
        return {TURN_WEIGHTS: [None, *found[TURN_WEIGHTS]]} if found and self.system is not None else found

    def _filled(self, template: str, place: str, row: Mapping[str, JSON]) -> str:
        values = {name: json_value(place, name, _column(place, row, name, "template")) for name in _template_fields(template)}
        return template.format(**{name: v if isinstance(v, str) else json.dumps(v) for name, v in values.items()})

    def _check(self) -> None:
        name = type(self).__name__
        if self.system is not None and not self.chat:
            raise ValueError(f"{name} has a system prompt and chat: false, but raw text has no system message: put it into a template")
        if self.rendered and (self.system is not None or self.template is not None):
            raise ValueError(f"{name} has rendered: true, so nothing is added to a text: leave out system and template")
        if self.template is not None and self.prompt_field != "prompt":
            raise ValueError(f"{name} has both prompt: {self.prompt_field} and a template: give one of them")
        if self.template is not None and not _template_fields(self.template):
            raise ValueError(f"{name}.template names no column, so every prompt would be the same: write {{column}} in it")


def _column(place: str, row: Mapping[str, JSON], name: str, argument: str, otherwise: str = "") -> JSON:
    if name in row:
        return row[name]
    close = difflib.get_close_matches(name, row, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    known = ", ".join(map(str, row)) or "none"
    raise ValueError(f"{place}: there is no column {name!r}.{hint} It has: {known}. Set `{argument}` to one of them{otherwise}.")


def _template_fields(template: str) -> list[str]:
    try:
        fields = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise ValueError(f"the template {template!r} is malformed: {error}; literal braces are written {{{{ and }}}}") from error
    for name, spec, conversion in fields:
        if not name.isidentifier() or spec or conversion:
            raise ValueError(f"the template {template!r}: {{{name}}} is no column name; literal braces are written {{{{ and }}}}")
    return [name for name, _, _ in fields]


OTHER_ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant"}
"""Names that other data have for roles: a template may write them, but nothing would be learnt from what the assistant said."""


def _messages(place: str, column: str, value: JSON) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value or not all(map(_is_message, value)):
        got = f"{type(value).__name__} {str(value)[:60]!r}"
        raise ValueError(f"{place}: column {column!r} must hold a string or a list of messages {{role, content}}, got {got}")
    if other := next((turn["role"] for turn in value if turn["role"] in OTHER_ROLES), None):
        raise ValueError(f"{place}: column {column!r} has the role {other!r}, which is called {OTHER_ROLES[other]!r} here: rename it")
    return tuple(map(message_of, value))


def message_of(turn: Mapping[str, JSON]) -> Message:
    """A message of data with what a chat template may write of it; a table has every field in every row, null where there is none."""
    known = {field: turn[field] for field in FIELDS if turn.get(field) is not None}
    if isinstance(known.get("tool_calls"), list):
        known["tool_calls"] = list(map(_call_of, known["tool_calls"]))
    return {"role": turn["role"], "content": turn.get("content") or "", **known}


def _call_of(call: JSON) -> JSON:
    """A call of data, its arguments as an object: APIs write them as a text of JSON, and most templates would quote that again."""
    if not isinstance(call, dict):
        return call
    if "function" in call:
        return call | {"function": _call_of(call["function"])}
    try:
        arguments = json.loads(call["arguments"])
    except (KeyError, TypeError, ValueError):
        return call
    return call | {"arguments": arguments} if isinstance(arguments, dict) else call


def _is_message(turn: object) -> bool:
    if not isinstance(turn, dict) or not isinstance(turn.get("role"), str):
        return False
    content = turn.get("content")
    # a call says nothing beside it
    return isinstance(content, str) or (content is None and bool(turn.get("tool_calls") or turn.get("function_call")))


def repeats(numbers: array[int]) -> dict[int, int]:
    """For each place at which a number stands that stood before: how often it has stood until then, 2 or more.

    Args:
        numbers: integers of 64 bits without a sign.
    """
    found = np.frombuffer(numbers, np.uint64)
    order = np.argsort(found, kind="stable")
    again = np.flatnonzero(found[order][1:] == found[order][:-1]) + 1
    counts: dict[int, int] = {}
    for before, place in zip(order[again - 1].tolist(), order[again].tolist(), strict=True):
        counts[place] = counts.get(before, 1) + 1
    return counts


DEEPEST = 100
"""Levels of lists and dicts in a value; Python itself gives up at some hundreds."""


def json_value(place: str, column: str, value: object) -> JSON:
    """The value itself; a ValueError if JSON cannot hold it."""
    if value is None or (isinstance(value, str) and value.isascii()):
        return value
    culprit = next(_culprits(value, DEEPEST), None)
    if culprit is None:
        return value
    raise ValueError(
        f"{place}: column {column!r} holds {culprit}, which is not a JSON value (null, bool, finite number, string, list, "
        "dict with string keys). Name the columns to keep in `columns`, or convert it."
    )


def _culprits(value: object, deepest: int) -> Iterator[str]:
    if isinstance(value, str) and not value.isascii() and re.search("[\ud800-\udfff]", value):
        yield "a text with half of a surrogate pair"
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"a number that is not finite ({value})"
    elif isinstance(value, (list, dict)):
        yield from _inside(value, deepest)
    elif value is not None and not isinstance(value, (str, int, float)):
        yield f"a {type(value).__name__}"


def _inside(value: list[object] | dict[object, object], deepest: int) -> Iterator[str]:
    if deepest == 0:
        yield f"a value of more than {DEEPEST} levels"
        return
    for key in value if isinstance(value, dict) else ():
        yield from _culprits(key, 0) if isinstance(key, str) else [f"a dict with a key of type {type(key).__name__}"]
    for part in value.values() if isinstance(value, dict) else value:
        yield from _culprits(part, deepest - 1)
