"""Data files as others leave them: each is read for what it says, or refused in a sentence that names the file and the row."""

from __future__ import annotations

import decimal
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from lightrl import JsonLines
from lightrl.data.files import LONGEST, Parquet

ROW = {"prompt": "1+1=", "answer": "2"}
GOOD = json.dumps(ROW).encode()
Damage = Callable[[bytes], bytes]


def lines(*rows: bytes) -> bytes:
    return b"".join(row + b"\n" for row in rows)


def answer(value: str) -> bytes:
    return f'{{"prompt": "a", "answer": {value}}}'.encode()


REFUSED_LINES: dict[str, tuple[bytes, str]] = {
    "ten thousand brackets": (lines(GOOD, answer("[" * 10_000)), r"f\.jsonl:2: (brackets are nested too deeply|not valid JSON)"),
    "ten thousand objects": (lines(answer('{"a":' * 10_000)), r"f\.jsonl:1: (brackets are nested too deeply|not valid JSON)"),
    "levels that Python can read": (lines(GOOD, answer("[" * 200 + "]" * 200)), r"f\.jsonl:2: column 'answer' .* more than 100 levels"),
    "an integer of 5,000 digits": (lines(GOOD, answer("7" * 5000)), r"f\.jsonl:2: .*4300.*5000 digits"),
    "a key twice": (lines(b'{"prompt": "a", "answer": 1, "answer": 2}'), r"f\.jsonl:1: the key 'answer' stands twice"),
    "a key twice inside": (lines(GOOD, answer('{"x": {"y": 1, "y": 1}}')), r"f\.jsonl:2: the key 'y' stands twice"),
    "NaN": (lines(GOOD, answer("NaN")), r"f\.jsonl:2: NaN is no JSON"),
    "minus infinity": (lines(answer("-Infinity")), r"f\.jsonl:1: -Infinity is no JSON"),
    "a number that is infinite": (lines(answer("[1e999]")), r"f\.jsonl:1: column 'answer' holds a number that is not finite"),
    "half of a surrogate pair": (lines(GOOD, rb'{"prompt": "a\ud800b", "answer": 1}'), r"f\.jsonl:2: column 'prompt' .*surrogate"),
    "such a half as a key": (lines(rb'{"prompt": "a", "answer": {"\udc00": 1}}'), r"f\.jsonl:1: column 'answer' .*surrogate"),
    "UTF-16": (lines(GOOD).decode().encode("utf-16"), "f.jsonl' cannot be read as text"),
    "Latin-1": ('{"prompt": "é", "answer": 1}\n'.encode("latin-1"), "f.jsonl' cannot be read as text"),
    "zeros": (bytes(100), r"f\.jsonl:1: not valid JSON"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(64), "f.jsonl' cannot be read as text"),
    "one array over many lines": (json.dumps([ROW, ROW], indent=1).encode(), r"f\.jsonl:1: not valid JSON"),
    "one array in one line": (json.dumps([ROW, ROW]).encode(), r"f\.jsonl:1: every line must be a JSON object .* got a list"),
    "commas": (b"prompt,answer\n1+1=,2\n", r"f\.jsonl:1: not valid JSON"),
    "Python's dictionaries": (b"{'prompt': '1+1=', 'answer': 2}\n", r"f\.jsonl:1: not valid JSON"),
    "two objects in a line": (GOOD + b" " + GOOD, r"f\.jsonl:1: not valid JSON: Extra data"),
    "a comment": (lines(b"// rows", GOOD), r"f\.jsonl:1: not valid JSON"),
    "a conflict of git": (lines(GOOD, b"<<<<<<< HEAD", GOOD), r"f\.jsonl:2: not valid JSON"),
    "the second half of a line": (lines(GOOD, GOOD[5:]), r"f\.jsonl:2: not valid JSON"),
    "an end in the middle": (lines(GOOD)[:-6], r"f\.jsonl:1: not valid JSON"),
    "a line break in a string": (b'{"prompt": "1\n2", "answer": 1}', r"f\.jsonl:1: not valid JSON"),
    "a pointer of Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", r"f\.jsonl:1: not valid JSON"),
    "a page of HTML": (b"<!DOCTYPE html>\n<html></html>\n", r"f\.jsonl:1: not valid JSON"),
    "a prompt of null": (lines(GOOD, b'{"prompt": null, "answer": 1}'), r"f\.jsonl:2: column 'prompt' must hold a string"),
    "columns that change": (lines(GOOD, b'{"question": "a", "answer": 1}'), r"f\.jsonl:2: there is no column 'prompt'"),
}

READ_LINES: dict[str, bytes] = {
    "a byte order mark": b"\xef\xbb\xbf" + lines(GOOD),
    "line breaks of Windows": GOOD + b"\r\n\r\n",
    "no line break at the end": GOOD,
    "spaces around": lines(b"", b" \t " + GOOD + b"  ", b"   "),
    "a line separator in a string": lines('{"prompt": "1+1=", "answer": "2", "note": "a\u2028b"}'.encode()),
    "an integer of 4,000 digits": lines(answer("7" * 4000)).replace(b'"a"', b'"1+1="'),
    "a level less than too many": lines(answer("[" * 100 + "]" * 100)).replace(b'"a"', b'"1+1="'),
}


@pytest.mark.parametrize("case", REFUSED_LINES)
def test_lines_that_are_refused_are_named(tmp_path: Path, case: str) -> None:
    content, words = REFUSED_LINES[case]
    path = tmp_path / "f.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as refused:
        JsonLines(str(path))
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("case", READ_LINES)
def test_lines_that_are_read(tmp_path: Path, case: str) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(READ_LINES[case])
    source = JsonLines(str(path), chat=False)
    assert [source.prompt(i).text for i in range(source.size)] == ["1+1="]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda packed: packed[:-9], "cannot be read as text"),
        (lambda packed: packed[:12] + bytes(6) + packed[18:], "cannot be read as text"),
        (lambda packed: packed[:-8] + bytes(8), "cannot be read as text: CRC"),
        (lambda packed: packed + b"more", "cannot be read as text"),
        (lambda packed: GOOD, "cannot be read as text: Not a gzipped file"),
        (lambda packed: gzip.compress(packed), "cannot be read as text"),
        (lambda packed: gzip.compress(bytes(LONGEST)), "which no row has"),
    ],
    ids=["its end is missing", "damaged", "a wrong checksum", "something behind it", "not packed", "packed twice", "a bomb"],
)
def test_packed_lines_that_are_refused(tmp_path: Path, damage: Damage, words: str) -> None:
    path = tmp_path / "f.jsonl.gz"
    path.write_bytes(damage(gzip.compress(lines(*[GOOD] * 50))))
    with pytest.raises(ValueError, match=words):
        JsonLines(str(path))


def table(path: Path, content: Any = None, **options: Any) -> bytes:
    made = pa.Table.from_pylist([ROW] * 1000) if content is None else content
    parquet.write_table(made, path, **options)
    return path.read_bytes()


def flipped(content: bytes) -> bytes:
    """One bit of a string's letters in the first page."""
    at = content.index(b"1+1=")
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def test_a_page_that_is_not_as_it_was_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(flipped(table(path, compression="none", write_page_checksum=True)))
    with pytest.raises(ValueError, match=r"f\.parquet' cannot be read as Parquet: .*CRC"):
        Parquet(str(path))


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-5],
        lambda whole: whole[:200],
        lambda whole: b"",
        lambda whole: b"PAR1" + bytes(500) + b"PAR1",
        lambda whole: GOOD,
    ],
    ids=["without its end", "its beginning", "nothing", "zeros between the marks", "lines of JSON"],
)
def test_what_is_no_parquet_is_refused(tmp_path: Path, damage: Damage) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(damage(table(path)))
    with pytest.raises(ValueError, match=r"f\.parquet' cannot be read as Parquet"):
        Parquet(str(path))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"note": [float("nan")]}, r"f\.parquet row 1: column 'note' holds a number that is not finite \(nan\)"),
        ({"note": [decimal.Decimal("1.5")]}, "row 1: column 'note' holds a Decimal"),
        ({"note": [b"\xff"]}, "row 1: column 'note' holds a bytes"),
        ({"note": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}, "row 1: column 'note' holds a tuple"),
    ],
    ids=["NaN", "decimals", "bytes", "maps"],
)
def test_columns_that_json_cannot_hold_are_refused(tmp_path: Path, columns: dict[str, Any], words: str) -> None:
    path = tmp_path / "f.parquet"
    table(path, pa.table({"prompt": ["a"], "answer": ["b"], **columns}))
    with pytest.raises(ValueError, match=words):
        Parquet(str(path))
    assert Parquet(str(path), columns=[]).size == 1


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table(path, pa.table([["a"], ["b"], ["c"]], names=["prompt", "answer", "answer"]))
    with pytest.raises(ValueError, match="has 2 columns named 'answer'"):
        Parquet(str(path))


def test_low_a_folder_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.jsonl").write_bytes(GOOD)
    with pytest.raises(ValueError, match=r"/data' is a folder. .*holds: rows.jsonl") as refused:
        JsonLines(path=str(tmp_path / "data"))
    assert "Did you mean" not in str(refused.value)
    with pytest.raises(ValueError, match="'/dev/null' is a device"):
        JsonLines(path="/dev/null")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ValueError, match=r"there is no file '.*/loop'. It is a symbolic link that leads nowhere"):
        JsonLines(path=str(tmp_path / "loop"))
