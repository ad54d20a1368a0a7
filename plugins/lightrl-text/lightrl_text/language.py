"""A reward for completions in one language."""

import functools
import re
from typing import Annotated, Any

from annotated_types import Ge

from lightrl import Prompt, RowReward

OUTSIDE = re.compile(
    r"```.*?(?:```|\Z)|\$\$.*?\$\$|\$[^$\n]*\$|\\\[(?:(?!\\\[).)*?\\\]|\\\((?:(?!\\\().)*?\\\)|\\[A-Za-z]+|</?[A-Za-z_-]+>", re.DOTALL
)
"""Code, LaTeX and tags, which are in no language. What is opened is not looked for beyond the next opening: text with many would be read
as often."""
PIECE_END = re.compile("(?<![.!?])[.!?]+(?:\\s|$)|[\u3002\uff01\uff1f]+|\n+")
"""The end of a sentence, also in Chinese and Japanese, and of a line."""


class Language(RowReward):
    """The share of a completion's letters that stand in sentences of one language.

    R = letters in sentences identified as `language` / letters in all sentences that are long enough to tell. Code, LaTeX and tags are
    left out. Abstains where there is no such sentence. Identified by py3langid, from a model of 97 languages that comes with it.

    Source: Guo et al. 2025 (DeepSeek-R1), arXiv:2501.12948, section 2.3.2, language consistency; Lui and Baldwin 2012 (langid.py).
    """

    runs = "inline"

    def __init__(
        self, language: str = "en", among: tuple[str, ...] | None = None, shortest: Annotated[int, Ge(1)] = 12, **kwargs: Any
    ) -> None:
        """
        Args:
            language: ISO 639-1 code of the language that is wanted.
            among: codes of the languages that occur, `language` included; fewer are told apart more surely; null: all 97.
            shortest: letters from which on a sentence counts, bytes of UTF-8 so that Chinese counts threefold; at least 1.
            **kwargs: weight and the other arguments of every reward.

        Raises:
            ValueError: a code is not known, `language` is not among them, or it is the only one.
        """
        super().__init__(**kwargs)
        known = _labels()
        unknown = sorted({language, *(among or ())} - set(known))
        if unknown:
            raise ValueError(f"Language does not know {', '.join(unknown)}; it knows {', '.join(known)}")
        if among is not None and (language not in among or len(set(among)) < 2):
            raise ValueError(f"Language needs among to hold {language!r} and at least one other language, got {list(among)}")
        self.language, self.shortest = language, shortest
        self.among = None if among is None else tuple(among)

    def score(self, prompt: Prompt, completion: str) -> float | None:
        """The share, or None without a sentence that is long enough."""
        pieces = [piece for piece in PIECE_END.split(OUTSIDE.sub(" ", completion)) if _letters(piece) >= self.shortest]
        total = sum(map(_letters, pieces))
        if total == 0:
            return None
        identifier = _identifier(self.among)
        return sum(_letters(piece) for piece in pieces if identifier.classify(piece)[0] == self.language) / total


def _letters(text: str) -> int:
    return len("".join(character for character in text if character.isalpha()).encode("utf-8", "surrogatepass"))


@functools.cache
def _labels() -> tuple[str, ...]:
    return tuple(sorted(_identifier(None).labels))


@functools.cache
def _identifier(among: tuple[str, ...] | None) -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(among)
    return identifier
