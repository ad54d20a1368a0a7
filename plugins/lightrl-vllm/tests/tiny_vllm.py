"""A program in the place of `vllm`: serves a Hugging Face folder by vLLM's routes with the standard library, and fails as it is told.

`python tiny_vllm.py serve FOLDER --port 8000`; `POST /faults {"names": ["stale"]}` plants faults, `GET /counts` counts requests by path.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from lightrl.versions import cache_argument

BLOCK = 16
"""Tokens of a block of keys and values that a later request need not read again."""


class ApiError(Exception):
    """Has a status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Decoder:
    """The model with its weights, and everything that generates with it."""

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

    def load(self, folder: str) -> Any:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, self.options.dtype)).eval()

    def generate(self, body: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            self.lock.wait_for(lambda: not self.paused)
            self.running += 1
        try:
            return self.answer(body)
        finally:
            with self.lock:
                self.running -= 1
                self.lock.notify_all()

    @torch.no_grad()
    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        name, ids, asked = body["model"], body["token_ids"], body["sampling_params"]
        if name != self.options.folder and name not in self.adapted:
            raise ApiError(404, f"The model `{name}` does not exist.")
        if not ids or len(ids) >= self.options.max_model_len:
            raise ApiError(400, "the prompt is empty or too long")
        if not 0 <= (temperature := asked.get("temperature", 1.0)) <= 2:
            raise ApiError(400, f"temperature must be in [0, 2], got {temperature}. (parameter=temperature, value={temperature})")
        while "hang" in self.faults:
            time.sleep(0.02)
        for status in (500, 503):
            if f"status {status}" in self.faults:
                raise ApiError(status, "EngineCore encountered an issue. See stack trace (above) for the root cause.")
        p = {key: value for key, value in asked.items() if f"ignores {key}" not in self.faults}
        numbers = torch.Generator().manual_seed(p["seed"]) if "seed" in p else torch.Generator()
        if "seed" not in p:
            numbers.seed()
        tokens, content, reason, past, feed = list[int](), list[dict[str, Any]](), "length", None, list(ids)
        for _ in range(min(p.get("max_tokens", 1 << 30), self.options.max_model_len - len(ids))):
            with self.lock:
                out = self.adapted.get(name, self.model)(input_ids=torch.tensor([feed]), use_cache=True, **{self.cache: past})
            past = out[self.cache]
            token, logprob = self.draw(out.logits[0, -1].double(), p, numbers)
            tokens.append(token)
            feed = [token]
            content.append({"token_id": token, "logprob": logprob, "rank": 1, "top_logprobs": []})
            text = self.tokenizer.decode(tokens, skip_special_tokens=True) if p.get("stop") else ""
            if token in p.get("stop_token_ids", []) or any(stop in text for stop in p.get("stop") or []):
                reason = "stop"
                break
        answer = {"request_id": "1", "model": name, "output_mode": "tokens", "usage": self.usage(ids, tokens)}
        return {**answer, "choices": [self.choice(tokens, content, reason)]}

    def draw(self, logits: torch.Tensor, p: dict[str, Any], numbers: torch.Generator) -> tuple[int, float]:
        """A token and its log-prob; filters in vLLM's order."""
        temperature = p.get("temperature", 1.0)
        raw = logits.log_softmax(-1)
        if temperature == 0:
            token = int(logits.argmax())
            return token, float(raw[token])
        left = logits / temperature
        left = left.masked_fill(left.softmax(-1) < p.get("min_p", 0.0) * left.softmax(-1).max(), -torch.inf)
        if (k := p.get("top_k", 0)) > 0:
            left = left.masked_fill(left < left.topk(min(k, len(left))).values[-1], -torch.inf)
        ordered, order = left.softmax(-1).sort(descending=True)
        cut = order[(ordered.cumsum(0) - ordered) >= p.get("top_p", 1.0)]
        left[cut] = -torch.inf
        token = int(torch.multinomial(left.softmax(-1), 1, generator=numbers))
        if "colder log-probs" in self.faults:
            return token, float((logits / (1.3 * temperature)).log_softmax(-1)[token])
        processed = self.options.logprobs_mode == "processed_logprobs" and "raw log-probs" not in self.faults
        return token, float((left if processed or "filtered log-probs" in self.faults else logits).log_softmax(-1)[token])

    def choice(self, tokens: list[int], content: list[dict[str, Any]], reason: str) -> dict[str, Any]:
        version = "-3" if "wrong version" in self.faults else self.version
        if "no log-probs" in self.faults:
            content = []
        if "one token off" in self.faults:
            values = [entry["logprob"] for entry in content]
            content = [{**entry, "logprob": value} for entry, value in zip(content, [values[0], *values[:-1]], strict=True)]
        if "another token" in self.faults:
            content[-1]["token_id"] += 1
        if "not finite" in self.faults:
            content[-1]["logprob"] = -9999.0
        return {
            "index": 0,
            "token_ids": tokens,
            "finish_reason": "abort" if "abort" in self.faults else reason,
            "stop_reason": None,
            "logprobs": {"content": content},
            "weight_versions": [{"version": version, "start": 0, "end": len(tokens)}],
        }

    def usage(self, ids: list[int], tokens: list[int]) -> dict[str, Any]:
        with self.lock:
            blocks = range(BLOCK, len(ids), BLOCK)
            cached = max((end for end in blocks if tuple(ids[:end]) in self.seen), default=0)
            row = [*ids, *tokens]
            self.seen.update(tuple(row[:end]) for end in range(BLOCK, len(row), BLOCK))
        return {"prompt_tokens": len(ids), "completion_tokens": len(tokens), "prompt_tokens_details": {"cached_tokens": cached}}

    def pause(self) -> dict[str, Any]:
        with self.lock:
            self.paused = True
            self.lock.wait_for(lambda: self.running == 0)
            self.seen.clear()
        return {"status": "paused"}

    def resume(self) -> dict[str, Any]:
        with self.lock:
            self.paused = False
            self.lock.notify_all()
        return {"status": "resumed"}

    def reload(self, body: dict[str, Any]) -> dict[str, Any]:
        folder = body["kwargs"]["weights_path"]
        if body["method"] != "reload_weights" or "reload fails" in self.faults:
            self.dead = "reload fails" in self.faults
            raise ApiError(500, f"no method {body['method']} or no weights in {folder}")
        if "stale" not in self.faults:
            self.model = self.load(folder)
        return {"results": [None]}

    def set_version(self, body: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(body["new_version"], str):
            raise ApiError(400, "new_version must be a string")
        self.version = body["new_version"]
        return {"success": True, "new_version": self.version}

    def load_adapter(self, body: dict[str, Any]) -> str:
        name, folder = body["lora_name"], body["lora_path"]
        if not Path(folder, "adapter_config.json").is_file():
            raise ApiError(404, f"no adapter in {folder}")
        if name in self.adapted and not body.get("load_inplace"):
            raise ApiError(400, f"The lora adapter '{name}' has already been loaded.")
        if "stale" not in self.faults or name not in self.adapted:
            self.adapted[name] = PeftModel.from_pretrained(self.load(self.options.folder), folder).eval()
        return f"Success: LoRA adapter '{name}' added successfully."

    def models(self) -> dict[str, Any]:
        root, length = self.options.folder, self.options.max_model_len
        base = {"id": root, "root": root, "parent": None, "max_model_len": length}
        return {"data": [base, *({"id": name, "root": "?", "parent": root, "max_model_len": length} for name in self.adapted)]}

    def plant(self, body: dict[str, Any]) -> dict[str, Any]:
        self.faults = set(body["names"])
        self.dead = False
        return self.resume()


class Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    server: Server

    def do_GET(self) -> None:
        decoder = self.server.decoder
        self.route(
            {
                "/health": lambda _: {},
                "/v1/models": lambda _: decoder.models(),
                "/weight_info": lambda _: {"weight_version": decoder.version},
                "/is_paused": lambda _: {"is_paused": decoder.paused},
                "/counts": lambda _: dict(decoder.counts),
            },
            {},
        )

    def do_POST(self) -> None:
        decoder = self.server.decoder
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.route(
            {
                "/inference/v1/generate": decoder.generate,
                "/pause?mode=wait": lambda _: decoder.pause(),
                "/resume": lambda _: decoder.resume(),
                "/collective_rpc": decoder.reload,
                "/update_weight_version": decoder.set_version,
                "/v1/load_lora_adapter": decoder.load_adapter,
                "/faults": decoder.plant,
            },
            body,
        )

    def route(self, routes: dict[str, Any], body: dict[str, Any]) -> None:
        decoder = self.server.decoder
        with decoder.lock:
            decoder.counts[self.path] += 1
        key = os.environ.get("VLLM_API_KEY")
        try:
            if self.path not in routes or f"without {self.path}" in decoder.faults:
                raise ApiError(404, "Not Found")
            if key and self.path.startswith(("/v1", "/inference")) and self.headers["Authorization"] != f"Bearer {key}":
                raise ApiError(401, "Unauthorized")
            if decoder.dead and self.path != "/faults":
                raise ApiError(500, "EngineDeadError")
            status, found = 200, routes[self.path](body)
        except ApiError as error:
            status, found = error.status, {"error": {"message": str(error), "code": error.status}}
        content = found.encode() if isinstance(found, str) else json.dumps(found).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except ConnectionError:
            # who asked has given up
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 512
    decoder: Decoder


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("folder")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--logprobs-mode", default="raw_logprobs")
    parser.add_argument("--max-model-len", type=int, default=512)
    parser.add_argument("--dtype", default="float32")
    options, others = parser.parse_known_args()
    print("serving", options.folder, *others, flush=True)  # noqa: T201 - the log of the server
    torch.set_num_threads(1)
    server = Server((options.host, options.port), Handler)
    server.decoder = Decoder(options)
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
