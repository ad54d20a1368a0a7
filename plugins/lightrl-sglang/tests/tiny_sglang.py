"""A program in the place of `sglang`: serves a Hugging Face folder by SGLang's routes with the standard library, and fails as it is told.

`python tiny_sglang.py serve --model-path FOLDER --port 8000`; `POST /faults {"names": ["stale"]}` plants faults, `GET /counts` counts
requests by path. It does what the source of SGLang 0.5.23 says: `ignore_eos` takes `stop_token_ids` with it, every EOS of the model ends a
completion, seeds count with `--enable-deterministic-inference` alone, and numbers that are not finite are null.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from lightrl_servers.dummy_server import ApiError, Asked, Body, DummyServer, Sampled, serve
from peft import PeftModel

SAMPLING = "max_new_tokens temperature top_p top_k min_p sampling_seed stop_token_ids ignore_eos stop min_new_tokens no_stop_trim n"
PENALTIES = "repetition_penalty presence_penalty frequency_penalty"
KNOWN = {*SAMPLING.split(), *PENALTIES.split()}
"""Fields of `sampling_params`."""


class TinySGLang(DummyServer):
    """Answers as SGLang does."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        generation = self.model.generation_config.eos_token_id
        several = generation if isinstance(generation, list) else [generation]
        self.own_ends = frozenset(i for i in (*several, self.tokenizer.eos_token_id) if i is not None) | frozenset(options.eos)
        self.path = options.folder

    def routes(self) -> Mapping[tuple[str, str], Callable[[Body], Body | str]]:
        return {
            ("GET", "/health"): lambda _: "",
            ("GET", "/health_generate"): self.health,
            ("GET", "/v1/models"): lambda _: self.models(),
            ("GET", "/model_info"): lambda _: {"model_path": self.path, "weight_version": self.version, "is_generation": True},
            ("GET", "/server_info"): lambda _: self.info(),
            ("POST", "/generate"): self.generate,
            ("POST", "/pause_generation"): self.pause,
            ("POST", "/continue_generation"): self.go_on,
            ("POST", "/update_weights_from_disk"): self.reload,
            ("POST", "/update_weight_version"): self.set_version,
            ("POST", "/load_lora_adapter"): self.load_adapter,
            ("POST", "/release_memory_occupation"): self.release,
            ("POST", "/resume_memory_occupation"): self.resume_memory,
            ("POST", "/unload_lora_adapter"): self.unload_adapter,
        }

    def key(self, path: str) -> str | None:
        return None if path.startswith(("/health", "/faults", "/counts")) else self.options.api_key

    def logprobs(self, logits: torch.Tensor, left: torch.Tensor, temperature: float) -> torch.Tensor:
        original = self.options.original_logprobs or "raw log-probs" in self.faults
        return (logits if original else logits / temperature).log_softmax(-1)

    def info(self) -> Body:
        known = {} if "no positions" in self.faults else {"max_req_input_len": self.options.context_length - 6}
        return {**known, "context_length": self.options.context_length, "api_key": self.options.api_key}

    def health(self, _: Body) -> str:
        if self.paused:
            raise ApiError(503, "")
        return ""

    def generate(self, body: Body) -> Body:
        with self.at_work():
            return self.completion(body)

    def completion(self, body: Body) -> Body:
        ids, given, adapters = body["input_ids"], body["sampling_params"], body.get("lora_path")
        if unknown := given.keys() - KNOWN:
            raise ApiError(500, f"SamplingParams.__init__() got an unexpected keyword argument {sorted(unknown)[0]!r}")
        if adapters is not None and adapters not in self.adapted:
            raise ApiError(400, f"The following requested LoRA adapters are not loaded: {adapters}")
        if len(ids) >= self.options.context_length - 6:
            raise ApiError(400, f"The input ({len(ids)} tokens) is longer than the model's context length")
        p = self.effective(given)
        if (top_k := p.get("top_k", -1)) < 1 and top_k != -1:
            raise ApiError(400, f"top_k must be -1 (disable) or at least 1, got {top_k}.")
        asked = Asked(
            ids=ids,
            limit=min(p.get("max_new_tokens", 128), self.options.context_length - 2 - len(ids)),
            temperature=p.get("temperature", 1.0),
            top_p=p.get("top_p", 1.0),
            top_k=top_k,
            min_p=p.get("min_p", 0.0),
            seed=p.get("sampling_seed", 42) if self.options.enable_deterministic_inference else None,
            ends=frozenset() if p.get("ignore_eos") else self.own_ends | frozenset(p.get("stop_token_ids", [])),
            stop=p.get("stop") or [],
        )
        sampled = self.sample(asked, adapters)
        return {"text": "", "output_ids": sampled.tokens, "meta_info": self.meta(ids, sampled, body.get("return_logprob", False))}

    def meta(self, ids: list[int], sampled: Sampled, return_logprob: bool) -> Body:
        reasons: dict[str, Any] = {"stop": {"type": "stop", "matched": sampled.matched}, "abort": {"type": "abort", "message": "Aborted"}}
        length = {"type": "length", "length": len(sampled.tokens)}
        logprobs: list[list[Any]] = [[value, token, None] for token, value in sampled.logprobs]
        for fault, value in {"null log-prob": math.nan, "not finite": -3.4e38}.items():
            if fault in self.faults:
                logprobs[-1][0] = None if math.isnan(value) else value
        reason = reasons.get(sampled.reason, length)
        if "NaN happened" in self.faults:
            reason = {"type": "stop", "matched": "NaN happened"}
        version = "-3" if "wrong version" in self.faults else self.version
        return {
            "id": "1",
            "finish_reason": reason,
            "prompt_tokens": len(ids),
            "completion_tokens": len(sampled.tokens),
            "cached_tokens": self.cached(ids, sampled.tokens),
            "weight_version": version,
            **({} if "one version" in self.faults else {"weight_versions": [{"version": version, "start": 0, "end": len(sampled.tokens)}]}),
            **({"output_token_logprobs": logprobs, "input_token_logprobs": []} if return_logprob else {}),
        }

    def pause(self, body: Body) -> Body:
        with self.lock:
            self.paused = True
        return {"status": "ok"}

    def go_on(self, body: Body) -> Body:
        self.resume()
        return {"status": "ok"}

    def reload(self, body: Body) -> Body:
        with self.lock:
            self.wait_until_idle()
        folder = body["model_path"]
        if "update fails" in self.faults:
            return {"success": False, "message": f"Failed to get weights iterator: {folder}."}
        if "reload fails" in self.faults or not Path(folder, "config.json").is_file():
            message = f"Failed to get weights iterator: {folder}."
            raise ApiError(400, message, {"success": False, "message": message, "num_paused_requests": 0})
        if "stale" not in self.faults:
            self.model = self.load(folder)
        self.path = folder
        if "keeps its version" not in self.faults:
            self.version = body["weight_version"]
        return {"success": True, "message": "Succeeded to update model weights.", "num_paused_requests": 0}

    def release(self, body: Body) -> Body:
        if not self.options.enable_memory_saver or body["tags"] != ["kv_cache", "weights"]:
            raise ApiError(400, "the memory saver is off, or tags are left out")
        self.sleep(keep_weights=self.options.enable_weights_cpu_backup)
        return {}

    def resume_memory(self, body: Body) -> Body:
        (what,) = body["tags"]
        if what not in self.asleep:
            raise ApiError(500, f"KeyError: {what!r}")
        self.wake(what)
        return {}

    def set_version(self, body: Body) -> Body:
        if body.get("abort_all_requests", True):
            raise ApiError(500, "all requests of others have ended")
        self.version = body["new_version"]
        return {"success": True, "message": "", "new_version": self.version}

    def load_adapter(self, body: Body) -> Body:
        name, folder = body["lora_name"], body["lora_path"]
        if not Path(folder, "adapter_config.json").is_file() or name in self.adapted:
            raise ApiError(400, f"Failed to load LoRA adapter {name} from {folder}")
        before = getattr(self, "unloaded", None)
        stale = "stale" in self.faults and before is not None
        self.adapted[name] = before if stale else PeftModel.from_pretrained(self.load(self.options.folder), folder).eval()
        return {"success": True, "error_message": None, "loaded_adapters": {name: folder}}

    def unload_adapter(self, body: Body) -> Body:
        self.unloaded = self.adapted.pop(body["lora_name"])
        return {"success": True, "error_message": None, "loaded_adapters": {}}

    def models(self) -> Body:
        base = {"id": self.path, "root": self.path, "parent": None, "max_model_len": self.options.context_length}
        return {"data": [base, *({"id": name, "root": "?", "parent": self.path, "max_model_len": None} for name in self.adapted)]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("--model-path", dest="folder", required=True)
    parser.add_argument("--context-length", type=int, default=512)
    parser.add_argument("--enable-deterministic-inference", action="store_true")
    parser.add_argument("--api-key")
    parser.add_argument("--enable-memory-saver", action="store_true")
    parser.add_argument("--enable-weights-cpu-backup", action="store_true")
    parser.add_argument("--mem-fraction-static", dest="share", type=float, default=0.0)
    parser.add_argument("--eos", type=int, nargs="*", default=[], help="further ends of the model")
    parser.add_argument("--original-logprobs", action="store_true", help="as SGLANG_RETURN_ORIGINAL_LOGPROB")
    serve(parser, TinySGLang)
