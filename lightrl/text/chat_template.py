"""A chat template: its text, and arguments that become part of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from lightrl.prompt import JSON

Template = TypeVar("Template", str, dict[str, str], None, str | dict[str, str] | None)
OURS = frozenset({"messages", "tools", "documents", "add_generation_prompt"})
"""Arguments that a rendering gives itself."""
NO_ARGUMENT = re.compile(r"\w+_token|raise_exception|strftime_now|range|dict|lipsum|cycler|joiner|namespace")
"""Names that a template reads and that transformers or Jinja gives it."""
OF_TRANSFORMERS = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")
"""Tags that Jinja does not know."""


def template_of(value: str) -> str:
    """The text of a template.

    Args:
        value: the text itself, or the path of a file with it.

    Raises:
        ValueError: neither.
    """
    if "{" in value:
        return value
    path = Path(value).expanduser()
    if not path.is_file():
        raise ValueError(f"chat_template: there is no file {value!r}, and it is no Jinja template either")
    return path.read_text()


def with_arguments(template: Template, arguments: Mapping[str, JSON], key: str = "chat_template_kwargs") -> Template:
    """A template, or several by name, with values for arguments that a rendering does not give.

    Args:
        key: names the arguments in errors.

    Raises:
        ValueError: there is no template, or it has no such argument.
    """
    if not arguments:
        return template
    if template is None:
        raise ValueError(f"{key}: the tokenizer has no chat template that could take them: give chat_template as well")
    if isinstance(template, dict):
        return {name: with_arguments(text, arguments, key) for name, text in template.items()}
    known = sorted(name for name in _read_by(template) - OURS if not NO_ARGUMENT.fullmatch(name))
    for name in arguments:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            why = "each rendering gives it itself" if name in OURS else f"the chat template has no such argument; {has}"
            raise ValueError(f"{key}.{name}: {why}")
    # the line break is taken away by trim_blocks, which every reader of chat templates sets
    values = "".join(f"{{% if {name} is not defined %}}{{% set {name} = {value!r} %}}{{% endif %}}" for name, value in arguments.items())
    return f"{values}\n{template}"


def _read_by(template: str) -> set[str]:
    from jinja2 import Environment, TemplateSyntaxError
    from jinja2.meta import find_undeclared_variables

    try:
        return find_undeclared_variables(Environment(extensions=["jinja2.ext.loopcontrols"]).parse(OF_TRANSFORMERS.sub("", template)))
    except TemplateSyntaxError as error:
        raise ValueError(f"chat_template: line {error.lineno} is no Jinja: {error.message}") from error
