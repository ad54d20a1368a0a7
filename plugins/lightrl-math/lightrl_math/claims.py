r"""Which part of a completion is its answer, and whether the text offers another one beside it: `5. Or 6`."""

import re
from typing import NamedTuple

BOX = r"\boxed{"
ANSWER_IS = re.compile(r"\banswer\b\s*(?:is\b(?!n't)|:|=)\s*:?", re.IGNORECASE)
SENTENCE_END = re.compile(r"[.!?](?:\s|$)|\n")
NUMBER_FIRST = re.compile(r"[\s$*(]*[-+\u2212]?[$\s]*\.?\d|\s*\\")
_OR = "or|alternatively|maybe|perhaps|possibly|else|otherwise"
_BETWEEN = r"(?:[,:]?\s+(?:or|maybe|perhaps|possibly|rather|even|just|actually|it|is|it's|was|be|could|might|may|should|the|answer|that))*"
_OTHER = r"(?:[-+$\\({*]*\.?\d|\\boxed|[$({*]*[A-J](?![\w'])(?!\s+[a-z]))"
"""A number, a box or a letter by itself."""
OFFERED_BEHIND = re.compile(rf"[^\w\\]*(?i:{_OR}|no|nope|wait|actually|sorry|correction)\b(?i:{_BETWEEN})[\s,:]+{_OTHER}")
OFFERED_BEFORE = re.compile(rf"(?:\d|(?<![A-Za-z])[A-J](?![A-Za-z]))[^\w\\]*\b(?i:{_OR})\b(?i:{_BETWEEN})[\s,:$(*]*$")
_NAMED = r"(?:that\s+)?(?:(?:the|my|your|its|this|final|correct|right)\s+)*$"
DENIED_BEFORE = re.compile(
    rf"(?:\b(?:not|never)|n['\u2019]t)\s+(?:think|believe|say|claim|agree|conclude|suppose)\s+{_NAMED}"
    rf"|\b(?:doubt|deny)\s+{_NAMED}|\b(?:wrong|false|untrue|incorrect)\s+(?=that\b){_NAMED}",
    re.IGNORECASE,
)
"""What takes back the answer that follows it at once: `I don't think the answer is 5`, and not `I'm not sure, but the answer is 5`."""
WINDOW = 80
"""Characters on either side of an answer that are looked at."""


class Claim(NamedTuple):
    """The part of a text that is its answer."""

    said: str
    boxed: bool
    rivalled: bool
    """The text offers another answer beside it, or takes it back: `5. Or 6`, `5. No, 6`."""


def claim(text: str) -> Claim | None:
    r"""The line behind the last `####`, else the last `\boxed{}`, else what follows the last "answer is" in its sentence; None: no such."""
    before, marked, behind = text.rpartition("####")
    # a heading of Markdown has the same mark
    if marked and (NUMBER_FIRST.match(behind.lstrip()) or last_box(behind) is None):
        said, _, after = behind.lstrip().partition("\n")
        return Claim(ANSWER_IS.split(said)[-1], False, offered(before, after))
    places = list(ANSWER_IS.finditer(text))
    if not places or BOX in text:
        return boxed_claim(text)
    behind = text[places[-1].end() :].lstrip()
    end = SENTENCE_END.search(behind)
    said, after = (behind[: end.start()], behind[end.end() :]) if end else (behind, "")
    return Claim(said, False, offered(text[: places[-1].start()], after))


def boxed_claim(text: str) -> Claim | None:
    r"""The last `\boxed{}`, nothing if it is not closed; None if there is none."""
    said = last_box(text)
    if said is None:
        return None
    before, _, after = text.rpartition(BOX + said)
    return Claim(said, True, offered(before, after.removeprefix("}")))


def offered(before: str, after: str) -> bool:
    """Whether the text around an answer offers another one, or takes it back."""
    near = before[-WINDOW:]
    return bool(OFFERED_BEFORE.search(near) or DENIED_BEFORE.search(near) or OFFERED_BEHIND.match(after[:WINDOW]))


def last_box(text: str) -> str | None:
    r"""The content of the last `\boxed{}`, nothing if it is not closed; None if there is none."""
    start = text.rfind(BOX)
    if start < 0:
        return None
    inside, depth = start + len(BOX), 1
    for end in range(inside, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[inside:end]
    return ""
