"""The routes, the program and the words of vLLM."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Literal

from lightrl_servers.completion import Completion
from lightrl_servers.device_share import Room
from lightrl_servers.dialect import Dialect
from lightrl_servers.own_server import Program
from lightrl_servers.server import Server, ServerError
from lightrl_servers.words import Words

from lightrl import Request, Sampling
from lightrl_vllm.generation import PATH, completion_of, generate_body

SHARE = "--gpu-memory-utilization"


class VLLMDialect(Dialect):
    """Asks servers of vLLM."""

    words = Words(
        limit="max_tokens",
        seed="seed",
        positions="--max-model-len",
        no_route=f"Start it with --enable-scale-out, which adds {PATH}",
        no_seeds="",
        aborted="somebody has paused the server without mode=wait, or is ending it",
        tempered="start it with --logprobs-mode processed_logprobs",
        comparable=(
            "Without top_p, top_k and min_p start it with --logprobs-mode processed_logprobs; with them, at temperature 1, "
            "with raw_logprobs"
        ),
        other_weights=("Compare dtypes (--dtype) and, for adapters, the base; on a CPU, reloads of tied embeddings keep the old head"),
        modes=MappingProxyType({(True, True): "processed_logprobs", (False, False): "raw_logprobs"}),
        open_routes="/pause, /collective_rpc, ...",
        guarded=False,
    )
    program = Program(
        name="vllm",
        server="vLLM",
        title="vllm serve",
        model=("serve",),
        # the route with tokens in and out; counts of what was read; no sampling defaults of the model's own
        words=("--enable-scale-out", "--enable-prompt-tokens-details", "--generation-config", "vllm"),
        environment=MappingProxyType(
            {
                # the routes for weights
                "VLLM_SERVER_DEV_MODE": "1",
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
                "VLLM_NO_USAGE_STATS": "1",
                "DO_NOT_TRACK": "1",
            }
        ),
        key_variable="VLLM_API_KEY",
        safe=(
            "--max-(model-len|num-seqs|num-batched-tokens|lora-rank|loras)|--(tensor-parallel|pipeline-parallel|data-parallel|block)-size"
            "|-(tp|pp|dp|q)|--gpu-memory-utilization|--dtype|--quantization|--kv-cache-dtype|--cpu-offload-gb|--swap-space|--enforce-eager"
            "|--(no-)?enable-(prefix-caching|chunked-prefill)|--enable-(sleep-mode|expert-parallel)|--disable-(log-stats|custom-all-reduce)"
            "|--seed|--revision"
        ),
    )

    async def describe(self, server: Server) -> None:
        """Ask for the name of its model, the folder of it, how many positions a row may have, and whether it can be updated."""
        served = [model for model in await server.models() if not model.parent]
        if not served:
            raise ServerError(server.told("/v1/models", "it serves no model"))
        server.model, server.root, server.positions = served[0].id, served[0].root or "", served[0].max_model_len or 0
        try:
            await server.get("/weight_info")
        except ServerError as error:
            if error.status != 404:
                raise
            missing = "it has no routes for weights: start it with VLLM_SERVER_DEV_MODE=1 in its environment"
            raise ServerError(server.told("/weight_info", missing)) from None
        if (await server.get("/is_paused")).get("is_paused"):
            raise ServerError(server.told("/is_paused", f"somebody has paused it: curl -X POST {server.address}/resume"))

    async def complete(self, server: Server, request: Request, adapters: str | None, limit_s: float | None) -> Completion:
        """The completion in the one answer; adapters are asked for as a model."""
        return completion_of(await server.post(PATH, generate_body(request, adapters or server.model), limit_s))

    async def sleep(self, server: Server, keep_weights: bool) -> None:
        """Level 1 keeps weights in the machine's memory, level 2 drops them; what was read is forgotten, and no request is taken."""
        await server.post(f"/sleep?level={1 if keep_weights else 2}&mode=wait")

    async def wake(self, server: Server, what: Literal["weights", "kv_cache"]) -> None:
        """Wake a part; after the last one it takes requests again."""
        await server.post(f"/wake_up?tags={what}")
        if what == "kv_cache" and (await server.get("/is_sleeping")).get("is_sleeping") is not False:
            raise ServerError(server.told("/is_sleeping", "it sleeps on, though its weights, keys and values were woken"))

    def share_words(self, room: Room, words: Sequence[str], keep_weights: bool) -> list[str]:
        """The share of the whole device, and the mode with sleep."""
        named = room.named_share(words, SHARE)
        return ["--enable-sleep-mode", *([] if named is not None else [SHARE, f"{room.left / room.total:.3f}"])]

    def start_words(self, sampling: Sampling) -> list[str]:
        """The mode in which log-probs are ours."""
        filtered = (sampling.top_p, sampling.top_k, sampling.min_p) != (1.0, 0, 0.0)
        return ["--logprobs-mode", "raw_logprobs" if filtered else "processed_logprobs"]
