"""A reward for completions that are JSON of a given form."""

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

from lightrl import Prompt, RowReward, without_thoughts

FENCE = re.compile(r"^[ \t]*```(?:json)?[ \t]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE | re.IGNORECASE)


class JsonSchema(RowReward):
    """Whether the completion is JSON that meets a schema.

    R = valid, invalid or unparsable. The JSON is the last fenced block, marked as json or not at all, else the whole completion; what
    stands before `</think>` is left out. References to other documents are not followed, except to the published drafts.

    Source: https://json-schema.org, by the `jsonschema` library; draft 2020-12 unless the schema names another.
    """

    def __init__(
        self, schema: dict[str, Any] | None = None, valid: float = 1.0, invalid: float = 0.0, unparsable: float = 0.0, **kwargs: Any
    ) -> None:
        """
        Args:
            schema: what every completion must meet; null: the column `schema` of its prompt.
            valid: the score of JSON that meets it.
            invalid: the score of JSON that does not.
            unparsable: the score of what is no JSON.
            **kwargs: weight and the other arguments of every reward.

        Raises:
            ValueError: the schema is none.
        """
        super().__init__(**kwargs)
        if schema is not None:
            _validator(json.dumps(schema))
        self.schema, self.valid, self.invalid, self.unparsable = schema, valid, invalid, unparsable

    def score(self, prompt: Prompt, completion: str, *, schema: Any = None) -> float:
        """`valid`, `invalid` or `unparsable`; the prompt's own schema, an object or JSON text, is used if the reward has none.

        Raises:
            ValueError: neither the reward nor the prompt has a schema, or the prompt's is none.
        """
        found = self.schema if self.schema is not None else schema
        if not isinstance(found, (Mapping, str)):
            raise ValueError(f"JsonSchema has no schema, and the column 'schema' of prompt {prompt.id!r} is {found!r}")
        validator = _validator(found if isinstance(found, str) else json.dumps(found))
        try:
            value = json.loads(json_of(completion), parse_constant=_refuse)
        except (ValueError, RecursionError):
            return self.unparsable
        return self.valid if validator.is_valid(value) else self.invalid


def json_of(completion: str) -> str:
    """The part of a completion that should be JSON, by the rules of `JsonSchema`."""
    text = without_thoughts(completion)
    blocks = FENCE.findall(text)
    return str(blocks[-1]) if blocks else text


@functools.lru_cache(maxsize=1024)
def _validator(schema: str) -> Any:
    import jsonschema
    from jsonschema_specifications import REGISTRY

    try:
        value = json.loads(schema)
        kind = jsonschema.validators.validator_for(value, default=jsonschema.Draft202012Validator)
        kind.check_schema(value)
    except (ValueError, AttributeError, jsonschema.SchemaError) as error:
        raise ValueError(f"JsonSchema cannot use the schema {schema[:80]!r}: {str(error).splitlines()[0]}") from error
    return kind(value, format_checker=kind.FORMAT_CHECKER, registry=REGISTRY)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
