import copy
import json
import pickle
import tempfile
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightrl.data.files import JsonLines
from lightrl.data.records import repeats
from lightrl.data.stored_lines import AT_ONCE, StoredLines
from lightrl.parts.prompts import content_hash
from lightrl.strategies.disk import DiskError


@given(st.lists(st.binary(max_size=20)), st.randoms())
def test_lines_come_back_in_any_order(lines: list[bytes], chance) -> None:
    stored = StoredLines()
    for number, line in enumerate(lines):
        stored.append(line)
        assert stored[number] == line
    places = list(range(len(lines)))
    chance.shuffle(places)
    assert [stored[i] for i in places] == [lines[i] for i in places]
    with pytest.raises(IndexError):
        stored[len(lines)]


def test_a_folder_without_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: Path("/dev/full").open("wb", buffering=0))  # noqa: SIM115
    lines = StoredLines()
    lines.append(b"1")
    with pytest.raises(DiskError, match=f"'{tempfile.gettempdir()}' cannot be written: No space left"):
        lines[0]


def test_many_lines_come_back() -> None:
    stored = StoredLines()
    for number in range(3 * AT_ONCE + 1):
        stored.append(str(number).encode())
    assert all(stored[number] == str(number).encode() for number in reversed(range(len(stored))))


@given(st.lists(st.integers(0, 5)))
def test_repeats_are_counted_in_order(numbers: list[int]) -> None:
    wanted = {i: numbers[: i + 1].count(number) for i, number in enumerate(numbers) if number in numbers[:i]}
    assert repeats(array("Q", numbers)) == wanted


def test_rows_with_the_same_content_have_ids_that_are_numbered_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"prompt": text, "answer": "1"}) + "\n" for text in "abaaba"))
    source = JsonLines(str(path))
    a, b = source.prompt(0).id, source.prompt(1).id
    assert [source.prompt(i).id for i in range(6)] == [a, b, f"{a}-2", f"{a}-3", f"{b}-2", f"{a}-4"]
    assert [source.content(i) for i in range(6)] == [a, b, a, a, b, a]
    assert source.place(5) == "a.jsonl:6"


def test_an_id_that_stands_twice_is_refused_with_both_places(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"prompt": "1", "answer": "1", "id": name}) + "\n" for name in ("x", "y", "\ud800", "y")))
    with pytest.raises(ValueError, match=r"a.jsonl:4: the id 'y' of column 'id' stands already in a.jsonl:2"):
        JsonLines(str(path), id="id")
    assert JsonLines(str(path), id="id", limit=3).prompt(2).id == "\ud800"


@pytest.mark.parametrize("arguments", [{}, {"chat": False}, {"rendered": True}, {"id": "name"}])
def test_a_known_content_is_that_of_the_prompt(tmp_path: Path, arguments: dict[str, Any]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        "".join(json.dumps({"prompt": text, "answer": "1", "name": i}) + "\n" for i, text in enumerate(("a", "", "a", "", "\u4e8c")))
    )
    source = JsonLines(str(path), **arguments)
    assert [source.content(i) for i in range(5)] == [content_hash(source.prompt(i)) for i in range(5)]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda lines: pickle.loads(pickle.dumps(lines))], ids=["copy", "another process"])
def test_a_copy_has_lines_of_its_own(copied: Callable[[StoredLines], StoredLines]) -> None:
    lines = StoredLines()
    lines.append(b"one")
    other = copied(lines)
    other.append(b"two")
    lines.append(b"three")
    assert [list(found) for found in (lines, other)] == [[b"one", b"three"], [b"one", b"two"]]
