"""JSON schemas of tools, as transformers makes them from signatures and docstrings."""

from __future__ import annotations

from collections.abc import Mapping

from lightrl.environments.tool_function import ToolFunction
from lightrl.prompt import JSON


def schema_of(tool: ToolFunction) -> dict[str, JSON]:
    """The description of a tool that a chat template shows to the policy.

    Args:
        tool: with a type and a line in its docstring for every argument.

    Raises:
        ValueError: a type or a part of the docstring is missing; the message says which, and the rule.
    """
    from transformers.utils import get_json_schema
    from transformers.utils.chat_template_utils import DocstringParsingException, TypeHintParsingException

    try:
        schema: dict[str, JSON] = get_json_schema(tool.function)
    except (TypeHintParsingException, DocstringParsingException, NameError, ValueError) as error:
        raise ValueError(
            f"the tool {tool.path!r} cannot be described to the policy: {error}. transformers makes the description: every argument needs "
            "a type (int, float, str, bool, None, Literal, an Enum, or list, tuple, dict and unions of them), and the docstring a first "
            "sentence and a section `Args:` with a line `name: what it is` for every argument"
        ) from error
    schema["function"]["name"] = tool.name
    return schema


def choices_of(schema: Mapping[str, JSON], argument: str) -> list[JSON] | None:
    """The values that an argument may have; None if its type is the only limit."""
    found: list[JSON] | None = schema["function"]["parameters"]["properties"][argument].get("enum")
    return found
