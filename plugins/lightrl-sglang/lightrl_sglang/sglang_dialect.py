"""The routes, the program and the words of SGLang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Literal

from annotated_types import Ge
from lightrl_servers.completion import Completion
from lightrl_servers.device_share import Room
from lightrl_servers.dialect import Dialect
from lightrl_servers.own_server import Program
from lightrl_servers.server import Answer, Form, Server, ServerError, read_as
from lightrl_servers.words import Words

from lightrl import Request, Sampling
from lightrl_sglang.generation import PATH, completion_of, ended_by_itself, generate_body, joined

ROUTES = (PATH, "/update_weights_from_disk", "/update_weight_version")
"""Routes that answer to POST alone: a GET says whether they are there, and does nothing."""
NOT_ALLOWED = 405
SHARE = "--mem-fraction-static"
STATIC = 0.85
"""Of what it takes, the part for weights, keys and values; activations and graphs come on top."""


class ModelInfo(Form):
    """The model of a server."""

    model_path: str


class ServerInfo(Form):
    """How long a row may be, which also depends on the memory for keys and values."""

    max_req_input_len: Annotated[int, Ge(1)]


class SGLangDialect(Dialect):
    """Asks servers of SGLang."""

    words = Words(
        limit="max_new_tokens",
        seed="sampling_seed",
        positions="--context-length, or its --mem-fraction-static if keys and values of such a row do not fit,",
        no_route="It is no server of SGLang, or an old one",
        no_seeds="Start it with --enable-deterministic-inference",
        aborted="somebody has aborted or paused what it generates, or is ending it",
        tempered="start it without SGLANG_RETURN_ORIGINAL_LOGPROB in its environment",
        comparable="Start it without SGLANG_RETURN_ORIGINAL_LOGPROB in its environment",
        other_weights="Compare dtypes (--dtype), quantization and, for adapters, the base",
        modes=MappingProxyType({(True, False): "the default", (False, False): "SGLANG_RETURN_ORIGINAL_LOGPROB"}),
        open_routes="/update_weights_from_disk, /pause_generation, ...",
        guarded=True,
    )
    program = Program(
        name="sglang",
        server="SGLang",
        title="sglang serve",
        model=("serve", "--model-path"),
        # seeds have no effect without it
        words=("--enable-deterministic-inference",),
        environment=MappingProxyType({"SGLANG_RETURN_ORIGINAL_LOGPROB": "0"}),
        key_variable=None,
        safe=(
            "--(context-length|max-(running-requests|total-tokens|prefill-tokens|lora-rank|loras-per-batch)|chunked-prefill-size|page-size)"
            "|--(tp|dp|pp|ep)(-size)?|--(tensor|data|pipeline|expert)-parallel-size|--(mem-fraction-static|cpu-offload-gb|cuda-graph-max-bs)"
            "|--(dtype|quantization|kv-cache-dtype|attention-backend|lora-backend|lora-target-modules)|--(random-seed|revision|log-level)"
            "|--(schedule-policy|schedule-conservativeness|watchdog-timeout|skip-server-warmup)"
            "|--disable-(cuda-graph|radix-cache|overlap-schedule|custom-all-reduce)"
        ),
    )

    async def describe(self, server: Server) -> None:
        """Ask for the folder of its model, how many positions a row may have, whether it generates, and whether it can be updated."""
        await self._expect_generating(server)
        server.root = server.model = read_as(ModelInfo, await self._ask(server, "/model_info")).model_path
        server.positions = read_as(ServerInfo, await self._ask(server, "/server_info")).max_req_input_len
        for path in ROUTES:
            await self._ask(server, path)

    async def complete(self, server: Server, request: Request, adapters: str | None, limit_s: float | None) -> Completion:
        """The completion in one answer, or in several: where an EOS of the model has ended one that should go on, the rest is asked for.

        The random numbers of a token are those of the seed and its position, so that these do not depend on the number of answers.
        """
        answer = await server.post(PATH, generate_body(request, adapters, []), limit_s)
        whole = completion_of(answer, request)
        while ended_by_itself(whole, request) and len(whole.tokens) < request.limit:
            answer = await server.post(PATH, generate_body(request, adapters, whole.tokens), limit_s)
            further = completion_of(answer, request)
            if not further.tokens:
                raise ServerError(f"it samples nothing behind token {whole.tokens[-1]}, which ends no completion")
            whole = joined(whole, further)
        return replace(whole, reason="length") if ended_by_itself(whole, request) else whole

    async def sleep(self, server: Server, keep_weights: bool) -> None:
        """Release weights, keys and values; it was started so that it keeps weights which are needed again."""
        await server.post("/release_memory_occupation", {"tags": ["kv_cache", "weights"]}, again=False)

    async def wake(self, server: Server, what: Literal["weights", "kv_cache"]) -> None:
        """Resume a part."""
        await server.post("/resume_memory_occupation", {"tags": [what]}, again=False)

    def share_words(self, room: Room, words: Sequence[str], keep_weights: bool) -> list[str]:
        """The share for weights, keys and values of what is free when it starts, and the allocator that can release them."""
        named = room.named_share(words, SHARE)
        share = [] if named is not None else [SHARE, f"{STATIC * room.left / (room.total - room.in_use):.3f}"]
        return ["--enable-memory-saver", *(["--enable-weights-cpu-backup"] if keep_weights else []), *share]

    def start_words(self, sampling: Sampling) -> list[str]:
        """None: its log-probs are over the whole vocabulary whatever filters leave."""
        return []

    async def _expect_generating(self, server: Server) -> None:
        try:
            await server.get("/health_generate")
        except ServerError as error:
            if error.status != 503:
                raise
            resumed = f"curl -X POST {server.address}/continue_generation -H 'Content-Type: application/json' -d '{{}}'"
            raise ServerError(
                f"{error}\nIt generates nothing: it has not yet started, hangs, or somebody has paused it: {resumed}"
            ) from None

    async def _ask(self, server: Server, path: str) -> Answer:
        """The answer of a path; of one that answers to POST alone, nothing."""
        try:
            return await server.get(path)
        except ServerError as error:
            if error.status == NOT_ALLOWED:
                return {}
            if error.status == 404:
                raise ServerError(server.told(path, f"there is no such route. {self.words.no_route}")) from None
            raise
