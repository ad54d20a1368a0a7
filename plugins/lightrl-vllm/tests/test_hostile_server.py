"""A server that answers anything at all: a result in its ranges comes of it, or an error that names the server."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_servers.completion import result_of
from lightrl_servers.fleet import Fleet
from lightrl_servers.server import LARGEST, Server, ServerError
from lightrl_vllm.generation import completion_of
from lightrl_vllm.vllm_dialect import VLLMDialect
from lightrl_vllm.weight_reload import FolderReload

from lightrl import ApiKey, Request, Result, Sampling

REQUEST = Request(0, [3, 4, 5], 2, Sampling(max_new_tokens=2), frozenset({1}), seed=0, episode=0)
GOOD: dict[str, Any] = {
    "choices": [
        {
            "token_ids": [7, 1],
            "finish_reason": "stop",
            "stop_reason": None,
            "logprobs": {"content": [{"token_id": 7, "logprob": -0.5}, {"token_id": 1, "logprob": -1}]},
            "weight_versions": [{"version": "4", "start": 0, "end": 2}],
        }
    ],
    "usage": {"prompt_tokens_details": {"cached_tokens": 2}},
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["content", "token_id", "version"]), inner, max_size=2),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of a value with something else at a place."""
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = put(value[path[0]], path[1:], new)
    return copied


def read(answer: dict[str, Any]) -> Result:
    """The result of the request."""
    return result_of(completion_of(answer), REQUEST, 4, str, VLLMDialect.words)


@settings(max_examples=300)
@given(st.sampled_from(list(places(GOOD))), ANYTHING)
def test_low_any_answer_is_a_result_in_its_ranges_or_refused(place: tuple[Any, ...], new: Any) -> None:
    answer = put(GOOD, place, new)
    try:
        result = read(answer if isinstance(answer, dict) else {})
    except ServerError:
        return
    assert all(type(token) is int and 0 <= token < 2**31 for token in result.tokens)
    assert all(type(value) is float and -1000 < value <= 1e-3 for value in result.logprobs)
    assert len(result.tokens) == len(result.logprobs) in (1, 2)
    assert 0 <= result.read <= 3
    assert result.versions == ((4, len(result.tokens)),)


@pytest.mark.parametrize("value", [-5, 5.7, 10**12, True, "7", None])
def test_low_a_token_is_a_number_of_the_vocabulary(value: Any) -> None:
    answer = put(put(GOOD, ("choices", 0, "token_ids", 0), value), ("choices", 0, "logprobs", "content", 0, "token_id"), value)
    with pytest.raises(ServerError, match=r"choices\.0\.token_ids\.0"):
        read(answer)


@pytest.mark.parametrize("value", [3.0, True, -8999, "-1", None])
def test_low_a_log_prob_is_below_zero(value: Any) -> None:
    with pytest.raises(ServerError):
        read(put(GOOD, ("choices", 0, "logprobs", "content", 0, "logprob"), value))


@pytest.fixture
def said() -> Iterator[dict[str, Any]]:
    """What a server answers: `body` and `headers`; its address is `at`."""
    said: dict[str, Any] = {"headers": {}, "body": b"{}"}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            # A socket that is closed with a request unread is reset, and the client loses the rest of the answer.
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(said.get("status", 200))
            for name, value in said["headers"].items():
                self.send_header(name, value)
            self.end_headers()
            for _ in range(said.get("times", 1)):
                try:
                    self.wfile.write(said["body"])
                except OSError:
                    return

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    said["at"] = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield said
    server.shutdown()
    server.server_close()
    thread.join()


def ask(said: dict[str, Any], folder: Path, vocabulary: int | None = None, key: str | None = None) -> Any:
    async def asked() -> Any:
        server = Server(said["at"], ApiKey(key), 30.0, 0, 4)
        fleet = Fleet(VLLMDialect(), [server], FolderReload(folder, 30.0))
        fleet.vocabulary = vocabulary
        await server.open()
        try:
            return await fleet.answer(server, REQUEST, 4, str)
        finally:
            await server.close()

    return asyncio.run(asked())


async def describe(address: str, key: ApiKey) -> None:
    fleet = Fleet(VLLMDialect(), [Server(address, key, 30.0, 0, 4)], FolderReload(Path(), 30.0))
    try:
        await fleet.connect(30.0)
    finally:
        await fleet.close()


BODIES: dict[str, dict[str, Any]] = {
    "nested": {"body": b"[" * 200_000},
    "zlib": {"body": json.dumps(GOOD).encode()[:-1], "headers": {"Content-Type": "application/json; charset=zlib"}},
    "idna": {"body": b"\xff" * 90, "status": 400, "headers": {"Content-Type": "text/plain; charset=idna"}},
    "no gzip": {"body": b"no gzip", "headers": {"Content-Encoding": "gzip"}},
    "endless": {"body": b" " * 2**20, "times": LARGEST // 2**20 + 2},
    "digits": {"body": b'{"choices": ' + b"9" * 5000 + b"}"},
}


@pytest.mark.parametrize("body", BODIES)
def test_low_a_body_that_is_no_answer_is_an_error_of_the_server(body: str, said: dict[str, Any], tmp_path: Path) -> None:
    said |= BODIES[body]
    with pytest.raises(ServerError, match=r"127\.0\.0\.1.*more than" if body == "endless" else r"127\.0\.0\.1"):
        ask(said, tmp_path)


def test_low_a_token_beyond_the_vocabulary_of_the_policy_is_refused(said: dict[str, Any], tmp_path: Path) -> None:
    said["body"] = json.dumps(GOOD).encode()
    assert ask(said, tmp_path, 8).tokens == [7, 1]
    with pytest.raises(ServerError, match="sampled token 7, and the policy has 7"):
        ask(said, tmp_path, 7)


@pytest.mark.parametrize("models", ["text", 5, None, [{}], [{"id": 5}], [{"id": "m", "max_model_len": "long"}], [None]])
def test_low_a_list_of_models_that_is_none(models: Any, said: dict[str, Any]) -> None:
    said["body"] = json.dumps({"data": models}).encode()

    with pytest.raises(ServerError, match=r"127\.0\.0\.1.*/v1/models"):
        asyncio.run(describe(said["at"], ApiKey(None)))


@pytest.mark.parametrize("length", [1, 47, None])
def test_low_rows_too_short_for_any_check_are_refused(length: int | None, said: dict[str, Any]) -> None:
    said["body"] = json.dumps({"data": [{"id": "m", "max_model_len": length}]}).encode()
    with pytest.raises(ServerError, match=rf"127\.0\.0\.1.*takes rows of {length or 0} tokens, expected 48 or more"):
        asyncio.run(describe(said["at"], ApiKey(None)))


@pytest.mark.parametrize(
    "body", [{"error": {"message": "no, thanks"}}, {"error": "no, thanks"}, {"success": False, "message": "no, thanks"}], ids=str
)
def test_the_message_of_a_refusal_is_found_wherever_servers_put_it(body: Any, said: dict[str, Any], tmp_path: Path) -> None:
    said |= {"status": 400, "body": json.dumps(body).encode()}
    with pytest.raises(ServerError, match=r"status 400: no, thanks$"):
        ask(said, tmp_path)


def test_low_words_of_a_server_command_no_terminal(said: dict[str, Any], tmp_path: Path) -> None:
    said |= {"status": 400, "body": b"\x1b[2Jno \x07caf\xc3\xa9"}
    with pytest.raises(ServerError, match=r"status 400: \\x1b\[2Jno \\x07café$"):
        ask(said, tmp_path)


def test_h3_a_key_that_a_server_repeats_is_cut_out_before_the_rest(said: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-proj-A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0ZZ"
    monkeypatch.setenv("MY_KEY", key)
    for at in range(240, 304, 8):
        said |= {"status": 400, "body": b"x" * at + key.encode() + b" is wrong"}

        with pytest.raises(ServerError) as failed:
            asyncio.run(describe(said["at"], ApiKey("MY_KEY")))
        assert not runs_of(key, failed.value), at


def runs_of(key: str, error: BaseException | None) -> list[str]:
    """The runs of eight characters of a key that an error shows, or one of its causes."""
    runs = [key[i : i + 8] for i in range(len(key) - 7)]
    return [] if error is None else [run for run in runs if run in str(error)] + runs_of(key, error.__cause__)


def test_h3_a_key_within_an_answer_is_not_shown(said: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-proj-A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0ZZ"
    monkeypatch.setenv("MY_KEY", key)
    refused: list[ServerError] = []
    for place in places(GOOD):
        said["body"] = json.dumps(put(GOOD, place, f"the key {key}, which is yours")).replace("sk-", "\\u0073k-").encode()
        try:
            ask(said, tmp_path, key="MY_KEY")
        except ServerError as failed:
            refused.append(failed)
    assert len(refused) > 10
    assert not [run for failed in refused for run in runs_of(key, failed)]
