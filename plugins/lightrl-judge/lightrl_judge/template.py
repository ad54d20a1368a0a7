"""Texts with named fields, in which data stays data."""

import json
import re
from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Any

from lightrl import Prompt

_TAG = re.compile(r"<\s*/?\s*([A-Za-z][\w-]*)")


class Template:
    """Text in which `{name}` stands for a field, and `{{` and `}}` for braces.

    A tag that the template itself has, such as `</answer>`, is written `&lt;/answer>` where a value has it, so that no completion ends the
    place that is graded and speaks to the judge behind it.
    """

    def __init__(self, text: str, needed: Iterable[str] = (), known: Iterable[str] | None = None) -> None:
        """
        Args:
            text: the template.
            needed: fields that must stand in it.
            known: the only ones that may; None: any.

        Raises:
            ValueError: braces that are no field, or a field too few or too many.
        """
        try:
            self._pieces = [(literal, _checked(name, spec, conversion)) for literal, name, spec, conversion in Formatter().parse(text)]
        except ValueError as error:
            raise ValueError(
                f"the template {text[:60]!r} cannot be read: {error}. Fields are {{name}}; write {{{{ and }}}} for braces"
            ) from error
        self.fields = frozenset(name for _, name in self._pieces if name is not None)
        missing = sorted(set(needed) - self.fields)
        if missing:
            raise ValueError(f"the template {text[:60]!r} lacks {_listed(missing)}; it has {_listed(self.fields)}")
        tags = sorted({tag for literal, _ in self._pieces for tag in _TAG.findall(literal)})
        self._own_tag = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(map(re.escape, tags))})\b)", re.IGNORECASE) if tags else None
        strangers = [] if known is None else sorted(self.fields - set(known))
        if strangers:
            raise ValueError(
                f"the template {text[:60]!r} has {_listed(strangers)}; there are only {_listed(known or ())}. "
                "Write {{ and }} for braces"
            )

    def render(self, values: Mapping[str, str]) -> str:
        """The text with every field replaced, once: braces in a value are left as they are."""
        return "".join(literal + ("" if name is None else self._data(values[name])) for literal, name in self._pieces)

    def _data(self, value: str) -> str:
        return value if self._own_tag is None else self._own_tag.sub("&lt;", value)


def conversation(prompt: Prompt) -> str:
    """The prompt as text: a single message by itself, of several each with its role."""
    if prompt.text is not None:
        return prompt.text
    messages = prompt.messages or ()
    if len(messages) == 1:
        return messages[0]["content"]
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in messages)


def column_text(prompt: Prompt, name: str, value: Any) -> str:
    """A column's value as text; what is none is written as JSON, and nothing there is a ValueError."""
    if value is None:
        raise ValueError(f"prompt {prompt.id!r} has nothing in {name!r}, which the judge is to be shown")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _checked(name: str | None, spec: str | None, conversion: str | None) -> str | None:
    if name is not None and (not name.isidentifier() or spec or conversion):
        raise ValueError(f"{{{name}}} is no plain field")
    return name


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names)) or "no field"
