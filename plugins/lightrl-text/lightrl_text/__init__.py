"""Rewards on the form of a completion, not on what it says."""

from lightrl import hookimpl
from lightrl_text.forms import RegularExpression, TagFormat
from lightrl_text.json_schema import JsonSchema
from lightrl_text.language import Language
from lightrl_text.length import Length, Repetition, SoftOverlong

__all__ = ["JsonSchema", "Language", "Length", "RegularExpression", "Repetition", "SoftOverlong", "TagFormat"]


@hookimpl
def lightrl_rewards() -> list[type]:
    return [JsonSchema, Language, Length, RegularExpression, Repetition, SoftOverlong, TagFormat]
