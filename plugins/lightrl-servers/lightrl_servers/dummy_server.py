"""A program in the place of an inference server, for tests: it serves a Hugging Face folder with the standard library.

`POST /faults {"names": ["stale"]}` plants faults, and `GET /counts` gives the numbers of requests by path.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psutil
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from lightrl.versions import cache_argument

Body = dict[str, Any]
"""A JSON object."""


class ApiError(Exception):
    """A refusal, with a status of HTTP, and the body of the answer if it is another one than most have."""

    def __init__(self, status: int, message: str, body: Body | None = None) -> None:
        super().__init__(message)
        self.status, self.body = status, body or {"error": {"message": message, "code": status}}


@dataclass(frozen=True)
class Asked:
    """A context that is to be continued."""

    ids: list[int]
    limit: int
    temperature: float
    top_p: float
    top_k: int
    """0 or less: all."""
    min_p: float
    seed: int | None
    """None: a new one for every request."""
    ends: frozenset[int]
    stop: list[str]


@dataclass
class Sampled:
    """The continuation."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[tuple[int, float]] = field(default_factory=list)
    """The token that a log-prob is of, and its value."""
    reason: str = "length"
    matched: int | str | None = None
    """The end or stop string."""


class DummyServer(ABC):
    """A model with its weights, what generates with it, and the faults that were planted; a subclass speaks the routes of a server."""

    block = 1
    """Tokens of a block of keys and values that a later request need not read again."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.lock, self.paused, self.running = options, threading.Condition(), False, 0
        self.tokenizer = AutoTokenizer.from_pretrained(options.folder)
        self.model = self.load(options.folder)
        self.cache = cache_argument(self.model.forward) or ""
        self.adapted: dict[str, Any] = {}
        self.version, self.dead = "default", False
        self.faults: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.seen: set[tuple[int, ...]] = set()
        self.asleep: set[str] = set()
        self.former = self.model, self.adapted
        self.memory: Tensor | None = None
        self.take()

    @abstractmethod
    def routes(self) -> Mapping[tuple[str, str], Callable[[Body], Body | str]]:
        """The functions that answer, by method and path."""

    @abstractmethod
    def key(self, path: str) -> str | None:
        """The key that a path wants."""

    @abstractmethod
    def logprobs(self, logits: Tensor, left: Tensor, temperature: float) -> Tensor:
        """Log-probs of all tokens, from logits and from those that are divided by the temperature and left by filters."""

    def load(self, folder: str) -> Any:
        """The model of a folder."""
        return AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, self.options.dtype)).eval()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Wait while it is paused, and count as running."""
        with self.lock:
            self.lock.wait_for(lambda: not self.paused)
            self.running += 1
        try:
            yield
        finally:
            with self.lock:
                self.running -= 1
                self.lock.notify_all()

    def wait_until_idle(self) -> None:
        """Wait for what is running, and forget what was read; the lock is held."""
        self.lock.wait_for(lambda: self.running == 0)
        self.seen.clear()

    def resume(self) -> None:
        """Take requests again."""
        with self.lock:
            self.paused = False
            self.lock.notify_all()

    def take(self) -> None:
        """Take a share of the machine's memory, as a server does for keys and values."""
        self.memory = torch.ones(int(self.options.share * psutil.virtual_memory().total), dtype=torch.uint8)

    def sleep(self, keep_weights: bool) -> None:
        """Give memory back once nothing runs, and forget the weights unless they are kept."""
        with self.lock:
            self.paused, self.asleep = True, {"weights", "kv_cache"}
            self.wait_until_idle()
            self.former = copy.deepcopy((self.model, self.adapted))
            if "sleep frees nothing" not in self.faults:
                self.memory = None
            for parameter in () if keep_weights else self.model.parameters():
                parameter.data.zero_()

    def wake(self, what: str) -> None:
        """Take a part back, weights first; after the last one requests are taken."""
        if what == "kv_cache" and "weights" in self.asleep:
            raise ApiError(500, "the weights are still asleep")
        if what == "kv_cache" and "sleeps on" in self.faults:
            return
        self.asleep.discard(what)
        if what == "kv_cache":
            self.take()
            if "wakes with old weights" in self.faults:
                self.model, self.adapted = self.former
            self.resume()

    def effective(self, asked: Body) -> Body:
        """The fields of a request that have an effect; the faults that concern every request happen here."""
        while "hang" in self.faults:
            time.sleep(0.02)
        for status in (500, 503):
            if f"status {status}" in self.faults:
                raise ApiError(status, "EngineCore encountered an issue. See stack trace (above) for the root cause.")
        return {name: value for name, value in asked.items() if f"ignores {name}" not in self.faults}

    @torch.no_grad()
    def sample(self, asked: Asked, adapters: str | None = None) -> Sampled:
        """Continue a context, with the model itself or with adapters on it."""
        sampled, past, feed = Sampled(), None, list(asked.ids)
        seed = torch.seed() if asked.seed is None else asked.seed
        for position in range(len(asked.ids), len(asked.ids) + asked.limit):
            with self.lock:
                model = self.model if adapters is None else self.adapted[adapters]
                out = model(input_ids=torch.tensor([feed]), use_cache=True, **{self.cache: past})
            past = out[self.cache]
            # the random numbers of a token are those of the seed and its position
            numbers = torch.Generator().manual_seed(hash((seed, position)) % 2**63)
            token, logprob = self._draw(out.logits[0, -1].double(), asked, numbers)
            sampled.tokens.append(token)
            sampled.logprobs.append((token, logprob))
            feed = [token]
            text = self.tokenizer.decode(sampled.tokens, skip_special_tokens=True) if asked.stop else ""
            matched = [token] if token in asked.ends else [stop for stop in asked.stop if stop in text]
            if matched:
                sampled.reason, sampled.matched = "stop", matched[0]
                break
        return self._spoilt(sampled)

    def cached(self, ids: list[int], tokens: list[int]) -> int:
        """Tokens of a context in whole blocks that an earlier request has read; those of this one are remembered."""
        with self.lock:
            found = max((end for end in range(self.block, len(ids), self.block) if tuple(ids[:end]) in self.seen), default=0)
            row = [*ids, *tokens]
            self.seen.update(tuple(row[:end]) for end in range(self.block, len(row), self.block))
        return found

    def plant(self, body: Body) -> Body:
        """Have these faults, and no others."""
        self.faults, self.dead = set(body["names"]), False
        self.resume()
        return {}

    def answer(self, method: str, path: str, authorization: str | None, body: Body) -> Body | str:
        """The answer to a request, or an ApiError."""
        with self.lock:
            self.counts[path] += 1
        routes = {("GET", "/counts"): lambda _: dict(self.counts), ("POST", "/faults"): self.plant, **self.routes()}
        if not any(path == known for _, known in routes) or f"without {path}" in self.faults:
            raise ApiError(404, "Not Found")
        if (method, path) not in routes:
            raise ApiError(405, "Method Not Allowed")
        if (key := self.key(path)) and authorization != f"Bearer {key}":
            raise ApiError(401, "Unauthorized")
        if self.dead and path != "/faults":
            raise ApiError(500, "EngineDeadError")
        return routes[method, path](body)

    def _draw(self, logits: Tensor, asked: Asked, numbers: torch.Generator) -> tuple[int, float]:
        if asked.temperature == 0:
            token = int(logits.argmax())
            return token, float(logits.log_softmax(-1)[token])
        left = logits / asked.temperature
        left = left.masked_fill(left.softmax(-1) < asked.min_p * left.softmax(-1).max(), -torch.inf)
        if asked.top_k > 0:
            left = left.masked_fill(left < left.topk(min(asked.top_k, len(left))).values[-1], -torch.inf)
        ordered, order = left.softmax(-1).sort(descending=True)
        left[order[(ordered.cumsum(0) - ordered) >= asked.top_p]] = -torch.inf
        token = int(torch.multinomial(left.softmax(-1), 1, generator=numbers))
        if "colder log-probs" in self.faults:
            return token, float((logits / (1.3 * asked.temperature)).log_softmax(-1)[token])
        return token, float(self.logprobs(logits, left, asked.temperature)[token])

    def _spoilt(self, sampled: Sampled) -> Sampled:
        if "abort" in self.faults:
            sampled.reason = "abort"
        if "one token off" in self.faults:
            values = [value for _, value in sampled.logprobs]
            sampled.logprobs = list(zip(sampled.tokens, [values[0], *values[:-1]], strict=True))
        if "another token" in self.faults:
            sampled.logprobs[-1] = (sampled.tokens[-1] + 1, sampled.logprobs[-1][1])
        if "no log-probs" in self.faults:
            sampled.logprobs = []
        return sampled


class _Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    server: _Server

    def do_GET(self) -> None:
        self._answer("GET", {})

    def do_POST(self) -> None:
        self._answer("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, method: str, body: Body) -> None:
        try:
            status, found = 200, self.server.dummy.answer(method, self.path, self.headers["Authorization"], body)
        except ApiError as error:
            status, found = error.status, error.body
        content = found.encode() if isinstance(found, str) else json.dumps(found).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except ConnectionError:
            # who asked has given up
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 512
    dummy: DummyServer


def serve(parser: argparse.ArgumentParser, kind: type[DummyServer]) -> None:
    """Serve until the process ends; a parser has `folder`, and gets the options that every server has."""
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dtype", default="float32")
    options, others = parser.parse_known_args()
    sys.stdout.write(f"serving {' '.join([options.folder, *others])}\n")
    sys.stdout.flush()
    torch.set_num_threads(1)
    server = _Server((options.host, options.port), _Handler)
    server.dummy = kind(options)
    server.serve_forever(poll_interval=0.05)
