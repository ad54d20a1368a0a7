r"""Numbers as they stand in a text, and digits that are part of something else: `3\sqrt{2}`, `x > 5`, `5x`, `x^2`."""

import re
from fractions import Fraction

from lightrl_math.written import typed

_SIGN = r"(?:(?<![\w.)])[-+\u2212])?"
_DIGITS = r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3}(?!\w))?"
SCALES = {"dozen": 12, "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
NUMBER = re.compile(
    rf"(?P<before>{_SIGN})[$€£]?(?P<after>{_SIGN})(?P<digits>{_DIGITS})(?:\s?/\s?(?P<below>\d+(?:\.\d+)?))?"
    rf"(?:[\s-](?P<scale>{'|'.join(SCALES)})s?\b)?"
)
"""A sign, a currency sign, digits with or without thousands separators and decimals, a denominator, and a word such as million."""
SPACES = re.compile(r"[ \t]+")
NEGATIVE = re.compile(r"\b(?:negative|minus)\s+(?=[$€£]?\.?\d)", re.IGNORECASE)
LONGEST = 300
"""Digits of a number that is still read; a degenerate completion may repeat digits without end."""
FRACTION = re.compile(r"\\[dt]?frac(?:\{([-+\u2212\d.,]+)\}\{([-+\u2212\d.,]+)\}|(\d)(\d))")
WORDS = re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:bf|rm|it)|mbox|bf|boldsymbol)\s?\{([^{}]*)\}")
LEFT_OUT = re.compile(r"<<[^<>]*>>|</?[A-Za-z][\w-]*>|\*\*|\\[!,]|\^\{?\\circ\}?|°|\\left(?![A-Za-z])|\\right(?![A-Za-z])")
"""GSM8K's calculations, tags, and marks that say nothing about the number."""
WRITTEN = {
    "{,}": ",",
    r"\$": "$",
    r"\%": "%",
    r"\;": " ",
    r"\:": " ",
    r"\ ": " ",
    "<=": "\u2264",
    ">=": "\u2265",
    "!=": "\u2260",
    "=>": " ",
}
"""Ways of writing, and what they become."""
IN_WORD = re.compile(r"[^\W\d]$")
"""What stands before a digit that is a part of a word."""
BOUND_BEFORE = re.compile(
    r"(?:[\^{]|(?:[<>\u00b1\u2260\u2264\u2265]|\\(?:leq?|geq?|neq?|lt|gt|pm|mp))\s?"
    r"|(?:sqrt|[\u221a-\u221c]|(?<![A-Za-z])(?:log|ln|sin|cos|tan|exp))\s?[({]?\s?|-\s?\(|(?:^|=)\s?-\s|(?<![A-Za-z])[A-Za-z]\("
    r"|(?:(?<![A-Za-z])(?:at least|at most|than|not|never|cannot|anything but|twice|half|double|triple"
    r"|up to|over|under|nearly|almost|root|square|cube|third|quarter)|n't)\s(?:of\s|be\s|equal to\s|exactly\s)?)$",
    re.IGNORECASE,
)
"""Before a number that is bounded by a relation or a word, or is an argument, an exponent or an index."""
BOUND_AFTER = re.compile(
    r"[\^_{!]|\+(?=\s*(?:[^\s\d\\$(.]|$))|\\[A-Za-z]|\s?(?:\\?sqrt|\\?pi\b|\u221a)|[^\W\d_](?![^\W\d_])"
    r"|\s(?:or (?:more|less|fewer|so|higher|lower|above|below)|at (?:least|most)|plus|squared|cubed|factorial"
    r"|(?:degrees )?below zero|(?:hundred|thousand|ten)ths|halves|thirds|mil|bn)\b",
    re.IGNORECASE,
)
"""After a number that is a factor, or has an exponent, a factorial, an open end or a word that makes it another one."""
WINDOW = 32
"""Characters before a number that are looked at."""


class Numeral:
    """A number in a text."""

    def __init__(self, match: re.Match[str]) -> None:
        self._match = match
        self.start, self.end = match.span()

    @property
    def value(self) -> Fraction | None:
        """None: it is a part of an expression, too long, or divided by zero."""
        text = self._match.string
        if self.end - self.start > LONGEST:
            return None
        if BOUND_BEFORE.search(text, max(0, self.start - WINDOW), self.start) or BOUND_AFTER.match(text, self.end):
            return None
        below = Fraction(self._match["below"] or 1)
        if below == 0:
            return None
        number = Fraction(self._match["digits"].replace(",", ""))
        negative = any(sign in self._match["before"] + self._match["after"] for sign in "-\u2212")
        return (-number if negative else number) / below * SCALES.get(self._match["scale"], 1)


def plain(text: str) -> str:
    """A text without what does not count in numbers; fractions as `3/4`."""
    text = typed(text)
    for written, same in WRITTEN.items():
        text = text.replace(written, same)
    text = SPACES.sub(" ", WORDS.sub(r" \1 ", LEFT_OUT.sub("", text)))
    return FRACTION.sub(_slashed, NEGATIVE.sub("-", text))


def numerals(text: str) -> list[Numeral]:
    """The numbers of a plain text, in order; digits inside a word are none."""
    return [Numeral(match) for match in NUMBER.finditer(text) if not IN_WORD.search(text, max(0, match.start() - 1), match.start())]


def without(found: list[Numeral], text: str) -> str:
    """The text without these numbers."""
    ends = [0, *(numeral.end for numeral in found)]
    starts = [*(numeral.start for numeral in found), len(text)]
    return " ".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _slashed(match: re.Match[str]) -> str:
    above, below = (match[1], match[2]) if match[1] else (match[3], match[4])
    # a mixed number is two numbers
    apart = " " if match.start() and match.string[match.start() - 1].isdigit() else ""
    return f"{apart}{above}/{below}"
