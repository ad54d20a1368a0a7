"""A program in the place of `vllm`: serves a Hugging Face folder by vLLM's routes with the standard library, and fails as it is told.

`python tiny_vllm.py serve FOLDER --port 8000`; `POST /faults {"names": ["stale"]}` plants faults, `GET /counts` counts requests by path.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from lightrl_servers.dummy_server import ApiError, Asked, Body, DummyServer, Sampled, serve
from peft import PeftModel


class TinyVLLM(DummyServer):
    """Answers as vLLM does."""

    block = 16

    def routes(self) -> Mapping[tuple[str, str], Callable[[Body], Body | str]]:
        return {
            ("GET", "/health"): lambda _: {},
            ("GET", "/v1/models"): lambda _: self.models(),
            ("GET", "/weight_info"): lambda _: {"weight_version": self.version},
            ("GET", "/is_paused"): lambda _: {"is_paused": self.paused},
            ("POST", "/inference/v1/generate"): self.generate,
            ("POST", "/pause?mode=wait"): lambda _: self.pause(),
            ("POST", "/resume"): self.resumed,
            ("POST", "/collective_rpc"): self.reload,
            ("POST", "/update_weight_version"): self.set_version,
            ("POST", "/v1/load_lora_adapter"): self.load_adapter,
            ("POST", "/sleep?level=1&mode=wait"): lambda _: self.sleep_at(1),
            ("POST", "/sleep?level=2&mode=wait"): lambda _: self.sleep_at(2),
            ("POST", "/wake_up?tags=weights"): lambda _: self.wake_up("weights"),
            ("POST", "/wake_up?tags=kv_cache"): lambda _: self.wake_up("kv_cache"),
            ("GET", "/is_sleeping"): lambda _: {"is_sleeping": bool(self.asleep)},
        }

    def key(self, path: str) -> str | None:
        return os.environ.get("VLLM_API_KEY") if path.startswith(("/v1", "/inference")) else None

    def logprobs(self, logits: torch.Tensor, left: torch.Tensor, temperature: float) -> torch.Tensor:
        processed = self.options.logprobs_mode == "processed_logprobs" and "raw log-probs" not in self.faults
        return (left if processed or "filtered log-probs" in self.faults else logits).log_softmax(-1)

    def generate(self, body: Body) -> Body:
        with self.at_work():
            return self.completion(body)

    def completion(self, body: Body) -> Body:
        name, ids, given = body["model"], body["token_ids"], body["sampling_params"]
        if name != self.options.folder and name not in self.adapted:
            raise ApiError(404, f"The model `{name}` does not exist.")
        if not ids or len(ids) >= self.options.max_model_len:
            raise ApiError(400, "the prompt is empty or too long")
        if not 0 <= (temperature := given.get("temperature", 1.0)) <= 2:
            raise ApiError(400, f"temperature must be in [0, 2], got {temperature}. (parameter=temperature, value={temperature})")
        p = self.effective(given)
        asked = Asked(
            ids=ids,
            limit=min(p.get("max_tokens", 1 << 30), self.options.max_model_len - len(ids)),
            temperature=p.get("temperature", 1.0),
            top_p=p.get("top_p", 1.0),
            top_k=p.get("top_k", 0),
            min_p=p.get("min_p", 0.0),
            seed=p.get("seed"),
            ends=frozenset(p.get("stop_token_ids", [])),
            stop=p.get("stop") or [],
        )
        sampled = self.sample(asked, name if name in self.adapted else None)
        usage = {"prompt_tokens_details": {"cached_tokens": self.cached(ids, sampled.tokens)}}
        return {"request_id": "1", "model": name, "output_mode": "tokens", "usage": usage, "choices": [self.choice(sampled)]}

    def choice(self, sampled: Sampled) -> Body:
        content = [{"token_id": token, "logprob": logprob, "rank": 1, "top_logprobs": []} for token, logprob in sampled.logprobs]
        if "not finite" in self.faults:
            content[-1]["logprob"] = -9999.0
        version = "-3" if "wrong version" in self.faults else self.version
        return {
            "index": 0,
            "token_ids": sampled.tokens,
            "finish_reason": sampled.reason,
            "stop_reason": None,
            "logprobs": {"content": content},
            "weight_versions": [{"version": version, "start": 0, "end": len(sampled.tokens)}],
        }

    def sleep_at(self, level: int) -> Body:
        if not self.options.enable_sleep_mode:
            raise ApiError(400, "Sleep mode is not enabled.")
        self.sleep(keep_weights=level == 1)
        return {"status": "sleeping", "level": level}

    def wake_up(self, what: str) -> Body:
        self.wake(what)
        return {"status": "sleeping" if self.asleep else "awake", "tags": [what]}

    def pause(self) -> Body:
        with self.lock:
            self.paused = True
            self.wait_until_idle()
        return {"status": "paused"}

    def resumed(self, _: Body) -> Body:
        self.resume()
        return {"status": "resumed"}

    def reload(self, body: Body) -> Body:
        folder = body["kwargs"]["weights_path"]
        if "weights" in self.asleep or body["method"] != "reload_weights" or "reload fails" in self.faults:
            self.dead = "reload fails" in self.faults
            raise ApiError(500, f"no method {body['method']} or no weights in {folder}")
        if "stale" not in self.faults:
            self.model = self.load(folder)
        return {"results": [None]}

    def set_version(self, body: Body) -> Body:
        if not isinstance(body["new_version"], str):
            raise ApiError(400, "new_version must be a string")
        self.version = body["new_version"]
        return {"success": True, "new_version": self.version}

    def load_adapter(self, body: Body) -> str:
        name, folder = body["lora_name"], body["lora_path"]
        if not Path(folder, "adapter_config.json").is_file():
            raise ApiError(404, f"no adapter in {folder}")
        if name in self.adapted and not body.get("load_inplace"):
            raise ApiError(400, f"The lora adapter '{name}' has already been loaded.")
        if "stale" not in self.faults or name not in self.adapted:
            self.adapted[name] = PeftModel.from_pretrained(self.load(self.options.folder), folder).eval()
        return f"Success: LoRA adapter '{name}' added successfully."

    def models(self) -> Body:
        root, length = self.options.folder, self.options.max_model_len
        base = {"id": root, "root": root, "parent": None, "max_model_len": length}
        return {"data": [base, *({"id": name, "root": "?", "parent": root, "max_model_len": length} for name in self.adapted)]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("folder")
    parser.add_argument("--logprobs-mode", default="raw_logprobs")
    parser.add_argument("--max-model-len", type=int, default=512)
    parser.add_argument("--enable-sleep-mode", action="store_true")
    parser.add_argument("--gpu-memory-utilization", dest="share", type=float, default=0.0)
    serve(parser, TinyVLLM)
