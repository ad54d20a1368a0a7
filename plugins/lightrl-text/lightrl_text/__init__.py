"""Rewards on the form of a completion, not on what it says."""

from typing import Any

from lightrl import hookimpl
from lightrl_text.json_schema import JsonSchema
from lightrl_text.language import Language
from lightrl_text.length import Length
from lightrl_text.overlong import SoftOverlong
from lightrl_text.regular_expression import RegularExpression
from lightrl_text.repetition import Repetition
from lightrl_text.tag_format import TagFormat

__all__ = ["JsonSchema", "Language", "Length", "RegularExpression", "Repetition", "SoftOverlong", "TagFormat"]


@hookimpl
def lightrl_rewards() -> list[type[Any]]:
    return [JsonSchema, Language, Length, RegularExpression, Repetition, SoftOverlong, TagFormat]
