"""A server of the run's own: `vllm serve`, found on the path, started with what lightrl needs and ended with the run."""

from __future__ import annotations

import codecs
import contextlib
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from lightrl import ApiKey
from lightrl_vllm.server import ServerError

logger = logging.getLogger(__name__)

ENVIRONMENT = {
    # the routes for weights
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
WORDS = ("--enable-scale-out", "--enable-prompt-tokens-details", "--generation-config", "vllm")
"""The route with tokens in and out; counts of what was read; no sampling defaults of the model's own."""
SAFE = re.compile(
    "--max-(model-len|num-seqs|num-batched-tokens|lora-rank|loras)|--(tensor-parallel|pipeline-parallel|data-parallel|block)-size"
    "|-(tp|pp|dp|q)|--gpu-memory-utilization|--dtype|--quantization|--kv-cache-dtype|--cpu-offload-gb|--swap-space|--enforce-eager"
    "|--(no-)?enable-(prefix-caching|chunked-prefill)|--enable-(sleep-mode|expert-parallel)|--disable-(log-stats|custom-all-reduce)"
    "|--seed|--revision"
)
"""Options of `vllm serve` that execute no code which somebody names; argparse takes beginnings of others, such as `--trust-r`."""
FOLLOW_PARENT = Path(__file__).with_name("follow_parent.py")
POLL_S = 0.2
END_S = 15.0
"""Seconds that a server gets to end by itself."""
TAIL = 2000
"""Characters of the log in a message."""
READ = 1 << 16
HELD = 7
"""Characters at the end of what was read that are written with what follows: a key may begin there, of which eight are shown nowhere."""


def check_words(words: Sequence[str], trusted: bool) -> None:
    """Refuse words of `vllm serve` that are not known to execute no code.

    Args:
        words: of a config.
        trusted: somebody has said that any may stand.

    Raises:
        ValueError: there are some.
    """
    unknown = [word for word in words if re.match("-+[^-0-9.]", word) and not SAFE.fullmatch(word.partition("=")[0].replace("_", "-"))]
    if unknown and not trusted:
        raise ValueError(
            f"serve has {', '.join(map(repr, unknown))}, and words of `vllm serve` can name code to execute. Known not to: "
            f"{SAFE.pattern}. If you trust the others, say trust_serve: true"
        )


class OwnServer:
    """A process that serves a folder at a free port of this machine."""

    def __init__(self, log: Path, key: ApiKey, devices: str | None) -> None:
        """The log gets what it prints, without the key; devices are its `CUDA_VISIBLE_DEVICES`, None: those of this process."""
        self.log, self._key, self._devices = log, key, devices
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: threading.Thread | None = None

    def start(self, folder: str, words: Sequence[str], limit_s: float) -> str:
        """Start it for a folder or hub id, with further words of `vllm serve`, and give its address once it answers; or a ServerError."""
        program = shutil.which("vllm")
        if program is None:
            raise ServerError(
                "there is no program named vllm on the path. Install vLLM in an environment of its own and put its bin folder on the path, "
                "or start servers yourself and give model.engine.addresses"
            )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [program, "serve", folder, "--host", "127.0.0.1", "--port", str(port), *WORDS, *words]
        devices = {} if self._devices is None else {"CUDA_VISIBLE_DEVICES": self._devices}
        key = self._key.value()
        # vLLM asks for the key that it finds there
        wanted = {"VLLM_API_KEY": key} if key else {}
        follow = [sys.executable, "-I", str(FOLLOW_PARENT), str(os.getpid()), *command]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # a session of its own, so that an interrupt of the run does not end it before the run
        self._process = subprocess.Popen(
            follow,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT, **devices, **wanted},
            start_new_session=True,
        )
        self._writer = threading.Thread(target=_write, args=[self._process.stdout, self.log, self._key], name="log of vLLM", daemon=True)
        self._writer.start()
        self._wait(f"http://127.0.0.1:{port}", self._process, limit_s)
        return f"http://127.0.0.1:{port}"

    def complaint(self) -> str:
        """How the server ended, with the end of its log; empty while it runs."""
        if self._process is None or self._process.poll() is None:
            return ""
        self._wait_for_log()
        said = self.log.read_text()[-TAIL:].strip()
        return f"vllm serve has ended with status {self._process.returncode}; the end of {self.log}:\n{said}"

    def close(self) -> None:
        """End it, and every process that it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # it may have ended its own processes
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        self._wait_for_log()

    def _wait_for_log(self) -> None:
        if self._writer is not None:
            # a process that it has left behind may keep the other end open
            self._writer.join(1.0)

    def _wait(self, address: str, process: subprocess.Popen[bytes], limit_s: float) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if complaint := self.complaint():
                raise ServerError(complaint)
            try:
                with opener.open(f"{address}/health", timeout=POLL_S * 10):
                    return
            except OSError:
                time.sleep(POLL_S)
        raise ServerError(f"vllm serve did not answer within {limit_s:g} s: raise start_limit_s, or read {self.log}")


def _write(said: IO[bytes], log: Path, key: ApiKey) -> None:
    """Write what a process says into its log, as it comes and without the key."""
    decoder, held = codecs.getincrementaldecoder("utf-8")("replace"), ""
    with said, log.open("a") as out:
        while data := os.read(said.fileno(), READ):
            told = key.redact(held + decoder.decode(data))
            end = len(told) - (0 if told.endswith("\n") else HELD)
            held = told[max(end, 0) :]
            try:
                out.write(told[: max(end, 0)])
                out.flush()
            except OSError as error:
                # the process would stand still if nobody read on
                logger.warning("%s lacks what vLLM says now: %s", log, error)
        out.write(held)
