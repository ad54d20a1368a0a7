"""Tries mutated inputs of others: `python -m benchmarks.faults.fuzz_inputs`, or `make bench CASE=fuzz_inputs`.

Data files (JSON lines, gzipped ones, Parquet), answers of servers (a judge's, vLLM's) and texts in the places of import paths are mutated
by hypothesis, 1,000 of each for each of three seeds. A finding is an error of another class than the documented one, a value outside its
range, or code that was executed and not listed before. Findings are printed with the smallest example, and the exit status is 1.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from lightrl import JsonLines, Request, Sampling
from lightrl.config.read.import_paths import import_paths
from lightrl.config.read.settings import Request as Words
from lightrl.config.read.settings import Setting, Text
from lightrl.import_path import ImportPathError, imported

ROWS = [
    {"prompt": "1+1=", "answer": "2", "level": 3},
    {
        "prompt": [{"role": "user", "content": "é\u200b"}, {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}],
        "answer": None,
    },
    {"prompt": "<|im_end|>", "answer": {"a": [1.5, True]}, "extra": {"deep": [[[]]]}},
]
PIECES = [b"", b"\0", b"\xff", b'"', b"{", b"}", b"[" * 3000, b"\n", b"\\ud800", b"1e999", b"NaN", b"null", b"-0", b"9" * 5000, b",", b":"]
REQUEST = Request(0, [3, 4, 5], 2, Sampling(max_new_tokens=2), frozenset({1}), seed=0, episode=0)
GENERATED: dict[str, Any] = {
    "choices": [
        {
            "token_ids": [7, 1],
            "finish_reason": "stop",
            "logprobs": {"content": [{"token_id": 7, "logprob": -0.5}, {"token_id": 1, "logprob": -1.0}]},
            "weight_versions": [{"version": "4", "start": 0, "end": 2}],
        }
    ],
    "usage": {"prompt_tokens_details": {"cached_tokens": 2}},
}
CHAT: dict[str, Any] = {
    "choices": [{"message": {"content": "7", "refusal": None}, "finish_reason": "stop"}],
    "usage": {"total_tokens": 9},
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["content", "token_id", "id", "x"]), inner, max_size=2),
    max_leaves=5,
)
EDITS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 40), st.sampled_from(PIECES)), min_size=1, max_size=4)
MODULE = "fuzzed_module"
ODD = [
    *("", " ", "\n", "\t", ".", "..", "-1", "()", "[0]", ":x", "#", "'", '"', "\u200b", "\u00a0", "{", "}", "[", "]", ", ", "&a ", "*a"),
    *("!!str ", "|\n  "),
]
Trial = Callable[[Any], None]


def edited(content: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """The content with some bytes cut out and others put in."""
    for place, length, piece in edits:
        at = place % (len(content) + 1)
        content = content[:at] + piece + content[at + length :]
    return content


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    yield path
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(part, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of a value with something else at a place."""
    if not path:
        return new
    copied: Any = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = put(value[path[0]], path[1:], new)
    return copied


def of_data(folder: Path) -> tuple[st.SearchStrategy[Any], Trial]:
    """Data files: their rows are prompts that JSON can hold, or a ValueError says what is wrong."""
    import pyarrow as pa
    from pyarrow import parquet

    from lightrl.data.files import Parquet

    lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    parquet.write_table(pa.table({"prompt": ["1=", "2="], "answer": ["1", "2"]}), folder / "good.parquet")
    whole = {"rows.jsonl": lines, "rows.jsonl.gz": gzip.compress(lines), "rows.parquet": (folder / "good.parquet").read_bytes()}

    def trial(drawn: tuple[str, list[tuple[int, int, bytes]]]) -> None:
        file = folder / drawn[0]
        file.write_bytes(edited(whole[drawn[0]], drawn[1]))
        try:
            source = (Parquet if file.suffix == ".parquet" else JsonLines)(path=str(file))
        except ValueError:
            return
        for index in range(source.size or 0):
            json.dumps(source.prompt(index).to_json(), allow_nan=False).encode()

    return st.tuples(st.sampled_from(sorted(whole)), EDITS), trial


def of_servers(folder: Path) -> tuple[st.SearchStrategy[Any], Trial]:
    """Answers of servers: numbers in their ranges, or the error of the client."""
    from lightrl_judge.chat import read_completion
    from lightrl_servers.completion import result_of
    from lightrl_servers.server import Models, ServerError, read_as
    from lightrl_vllm.generation import completion_of
    from lightrl_vllm.vllm_dialect import VLLMDialect

    models = {"data": [{"id": "m", "root": "m", "parent": None, "max_model_len": 512}]}
    good = {"chat": CHAT, "generated": GENERATED, "models": models}

    def trial(drawn: tuple[str, int, Any, list[tuple[int, int, bytes]]]) -> None:
        name, number, new, edits = drawn
        every = list(places(good[name]))
        answer = put(good[name], every[number % len(every)], new)
        if name == "chat":
            for body in (json.dumps(answer).encode(), edited(json.dumps(good[name]).encode(), edits)):
                try:
                    completion = read_completion(body)
                except ValueError:
                    continue
                if completion.tokens is not None and completion.tokens < 0:
                    raise AssertionError(completion)
            return
        answer = answer if isinstance(answer, dict) else {}
        try:
            if name == "models":
                read_as(Models, answer)
                return
            result = result_of(completion_of(answer), REQUEST, 4, str, VLLMDialect.words)
        except ServerError:
            return
        if not all(0 <= token < 2**31 for token in result.tokens) or not all(-1000 < value <= 1e-3 for value in result.logprobs):
            raise AssertionError(result)

    return st.tuples(st.sampled_from(sorted(good)), st.integers(0, 99), VALUES, EDITS), trial


def of_paths(folder: Path) -> tuple[st.SearchStrategy[Any], Trial]:
    """Texts in the places of import paths: whatever is executed was listed before."""
    (folder / f"{MODULE}.py").write_text("def score(completion):\n    return 1.0\n")
    sys.path.insert(0, str(folder))
    around = st.lists(st.sampled_from([*ODD, MODULE, f"{MODULE}.score", "score", "class_path: "]), max_size=6).map("".join)

    def trial(text: str) -> None:
        sys.modules.pop(MODULE, None)
        words = Setting(("model", "rewards", "x"), Text(text), "command line"), Setting((), {"model": {"rewards": {"x": text}}}, "file")
        listed = [{found.path for found in import_paths(Words([one]))} for one in words]
        if MODULE in sys.modules:
            raise AssertionError("listing imports")
        with suppress(ImportPathError):
            imported(text)
        if MODULE in sys.modules and not all(any(path.startswith(f"{MODULE}.") for path in found) for found in listed):
            raise AssertionError(f"{text!r} is executed, and listed are {listed}")

    return around, trial


INPUTS = {"data files": of_data, "server answers": of_servers, "import paths": of_paths}
"""By what is mutated: makes the mutations and what is done with one."""


def tried(what: str, number: int, count: int, folder: Path) -> str | None:
    """The traceback of a finding, with its smallest example; None if there is none.

    Args:
        what: a key of `INPUTS`.
        number: the seed.
        count: mutations.
        folder: for files.
    """
    strategy, trial = INPUTS[what](folder)
    limits = settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck), derandomize=False)
    try:
        seed(number)(limits(given(strategy)(trial)))()
    except Exception:
        return traceback.format_exc()
    return None


def main() -> int:
    """Try them; 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="mutations of each kind for each seed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    findings = 0
    for what in INPUTS:
        for number in options.seeds:
            with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
                finding = tried(what, number, options.count, Path(scratch))
            findings += finding is not None
            print(f"{what}, seed {number}: {options.count:,} tried, {'a finding' if finding else 'no finding'}", flush=True)
            print(finding or "", end="")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
