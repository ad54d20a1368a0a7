r"""Ways of writing an answer: those that mean the same, and those that math-verify takes as the same although they are not."""

import re
import unicodedata

from lightrl_math.claims import BOX, last_box

TYPED = re.compile("[\u00bc-\u00be\u2150-\u215e\uff01-\uff5e\u207b\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+")
"""Fractions, powers and full-width characters as one sign."""
POWER = re.compile("[\u207b\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+")
SIGNS = str.maketrans({"\u00f7": "/", "\u2044": "/", **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-")})
REPEATING = re.compile(r"(\d*)\.(\d*)\\overline\{(\d+)\}")
UNIT = re.compile(r"(?<=\d)\s*(?:mph|km|mi|miles|m|cm|ft|feet|l|liters|kg|g|dollars|cents)\s?(?:/|\bper\b)\s?[a-z]+$")
MARKS = re.compile(
    r"\\neq?(?![a-z])|!=|\\not|\u2260|\\[bp]?mod|(?<![\w.])0x(?=[\da-f])|\d_\{?\d+|\\approx|\\sim(?![a-z])|\\pm|\\mp|[<>\u2264\u2265]|%(?=\s*\d)|\+\s*$"
)
"""Relations, remainders and bases, of which math-verify may keep the number alone."""
UNSOLVED = re.compile(
    r"(?:(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])\s*[-+*/^]|[-+*/^]\s*(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])"
    r"|\d\s*(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])|\\(?:sqrt|frac|sin|cos|tan|log|ln)\W*[A-Za-z](?![A-Za-z])|\|)"
)
"""A letter in an expression, so that an equation with it on the left is not solved."""
SENTENCE = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{3,}")
WORD = re.compile(r"[A-Za-z]+(?:[ -][A-Za-z]+)*")


def typed(text: str) -> str:
    """A text with one way of typing: `\u00bd` as `1/2`, `10\u00b3` as `10^{3}`, full-width signs as their usual ones."""

    def usual(match: re.Match[str]) -> str:
        same = unicodedata.normalize("NFKC", match[0])
        if POWER.fullmatch(match[0]):
            return f"^{{{same}}}"
        return f" {same}" if "\u2044" in same else same

    return TYPED.sub(usual, text).translate(SIGNS)


def rewritten(text: str) -> str:
    r"""A text that math-verify reads as a person does: repeating decimals as fractions, a box without braces, periods and units."""
    text = REPEATING.sub(_fraction, text).replace("####", "\n")
    inside = last_box(text)
    if not inside:
        return text
    before, _, after = text.rpartition(BOX + inside)
    return f"{before}{BOX}{UNIT.sub('', bare(inside))}{after}"


def bare(inside: str) -> str:
    """The content of a box without braces around it and a period or comma behind it."""
    inside = inside.strip().rstrip(".,;").strip()
    while inside.startswith("{") and inside.endswith("}") and _closes(inside):
        inside = inside[1:-1].strip()
    return inside


def unsolved(claim: str) -> bool:
    """Whether a claim is an equation with an expression in a letter on its left, such as `x^2 = 5`."""
    left, equals, _ = re.sub(r"\\text\w*\{[^{}]*\}", "", claim).rpartition("=")
    left = left.rpartition("=")[2]
    return bool(equals) and not SENTENCE.search(left) and bool(UNSOLVED.search(left))


def contradicts(said: str, expected: str) -> bool:
    """Whether two answers differ in something that math-verify leaves out."""
    if _words(said) and _words(expected):
        return _same_case(_words(said)) != _same_case(_words(expected))
    marks = [sorted(match.replace("{", "") for match in MARKS.findall(text)) for text in (said, expected)]
    return (bool(marks[0]) and marks[0] != marks[1]) or (unsolved(said) and "=" not in expected)


def _same_case(word: str) -> str:
    # a letter is a variable or a choice; the case of words says nothing
    return word if len(word) == 1 else word.casefold()


def _words(text: str) -> str:
    text = re.sub(r"\\(?:text\w*|math\w+|mbox)\s*\{([^{}]*)\}", r"\1", text).strip().strip("$().").strip()
    return text if WORD.fullmatch(text) else ""


def _closes(inside: str) -> bool:
    """Whether the first brace is closed by the last character."""
    depth = 0
    for at, sign in enumerate(inside):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth == 0:
            return at == len(inside) - 1
    return False


def _fraction(match: re.Match[str]) -> str:
    whole, once, again = match[1] or "0", match[2], match[3]
    below = (10 ** len(again) - 1) * 10 ** len(once)
    return rf"\frac{{{int(whole + once + again) - int(whole + once)}}}{{{below}}}"
