"""A server that speaks the chat completions protocol and does as a test tells it."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import torch

from lightrl import Prompt, Rollout
from lightrl.rewards import dispatch
from lightrl.rewards.reward_set import RewardSet

KEY = "sk-a-key-that-nobody-may-see-0123456789"


@dataclass
class Says:
    """The answer of the server to one request."""

    text: str | None = ""
    finish_reason: str = "stop"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    message: dict[str, Any] = field(default_factory=dict)
    """Further fields of the message."""
    usage: dict[str, int] | None = field(default_factory=lambda: {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10})
    raw: bytes | None = None
    """The whole body, in place of a chat completion."""
    drop: bool = False
    """Close the connection in the middle of the answer."""
    sleep: float = 0.0


Behaviour = Callable[[dict[str, Any], int], Says | str]


class Server(ThreadingHTTPServer):
    """Answers each request by `behaviour(body, number)`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour: Behaviour = lambda body, number: '{"score": 5}'
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.keys: list[str] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def asked(self, number: int = -1) -> list[dict[str, str]]:
        """The messages of a request."""
        messages: list[dict[str, str]] = self.requests[number]["messages"]
        return messages


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.requests)
            self.server.requests.append(body)
            self.server.times.append(time.monotonic())
            self.server.keys.append(self.headers.get("Authorization", ""))
        said = self.server.behaviour(body, number)
        says = Says(said) if isinstance(said, str) else said
        time.sleep(says.sleep)
        content = says.raw if says.raw is not None else json.dumps(completion(says)).encode()
        try:
            self.send_response(says.status)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **says.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if says.drop else content)
        except ConnectionError:
            # who asked has given up waiting
            self.close_connection = True
        if says.drop:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def completion(says: Says) -> dict[str, Any]:
    message = {"role": "assistant", "content": says.text, **says.message}
    return {
        "id": "1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": says.finish_reason}],
        **({} if says.usage is None else {"usage": says.usage}),
    }  # fmt: skip


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(dispatch, "FIRST_PAUSE", 0.01)


@pytest.fixture
def says() -> type[Says]:
    return Says


@pytest.fixture
def key() -> str:
    return KEY


@pytest.fixture
def scored(server: Server) -> Iterator[Callable[..., Any]]:
    """Completions scored by a reward as a run does it: outcomes, values and what was said of failures."""
    made: list[RewardSet] = []

    def score(reward: Any, completions: list[str], answer: Any = None, **columns: Any) -> Any:
        made.append(RewardSet({"judge": reward}))
        return made[-1].score(rollout(completions, answer, columns))

    yield score
    for rewards in made:
        rewards.close()


def rollout(completions: list[str], answer: Any, columns: dict[str, Any]) -> Rollout:
    n = len(completions)
    prompts = [Prompt(id=f"p{i}", text="What is 1+1?", answer=answer, columns=columns) for i in range(n)]
    two = torch.ones(n, 2, dtype=torch.bool)
    return Rollout(
        prompts=prompts, completions=completions, input_ids=torch.zeros(n, 2, dtype=torch.long), attention_mask=two,
        response_mask=two & torch.tensor([False, True]), rollout_logprobs=torch.zeros(n, 2), group=torch.arange(n),
        finish_reason=["stop"] * n, policy_version=torch.zeros(n, dtype=torch.long), temperature=1.0,
    )  # fmt: skip
