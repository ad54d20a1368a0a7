"""Stop strings are seen as soon as the whole text contains them, whatever the tokens are."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from lightrl.rollout.decode.decoding import StopStrings

PIECES = ["a", "b", "ab", " a", "ba\n", "", b"\xc3", b"\xa9", b"\xf0\x9f", b"\x98\x80"]
SPECIAL = len(PIECES)


def decode(ids: Sequence[int]) -> str:
    """Byte-level decoding that leaves out the special id and drops a leading space, as sentencepiece does."""
    pieces = [PIECES[i] for i in ids if i != SPECIAL]
    text = b"".join(p.encode() if isinstance(p, str) else p for p in pieces).decode(errors="replace")
    return text[1:] if text.startswith(" ") else text


@settings(max_examples=300, deadline=None)
@given(
    ids=st.lists(st.sampled_from([i for i in range(SPECIAL + 1) if i != PIECES.index("")]), max_size=30),
    stop=st.lists(st.sampled_from(["a", "abab", " ab", "\nb", "é", "😀a", "aaaa", "b b"]), min_size=1, max_size=3),
)
def test_seen_at_the_first_token_after_which_the_text_contains_one(ids: list[int], stop: list[str]) -> None:
    watcher = StopStrings(stop, decode, [SPECIAL])
    for end, token in enumerate(ids, 1):
        expected = any(text in decode(ids[:end]) for text in stop)
        assert watcher.seen(1, token) == expected
        if expected:
            break


def test_decoding_stays_within_a_window() -> None:
    longest = 0

    def counting(ids: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return "a" * len(ids)

    watcher = StopStrings(["stop"], counting, [])
    assert not any(watcher.seen(0, 0) for _ in range(500))
    assert longest == 8
