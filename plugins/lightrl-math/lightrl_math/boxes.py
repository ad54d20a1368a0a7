r"""Finding `\boxed{}`."""

BOX = r"\boxed{"


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
