"""Judges that are language models, as small programs: those that obey a completion are found, and one that reads tags is not accused."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from lightrl_attack.outcome import Verdict
from lightrl_attack.reward_attack import attacked
from lightrl_judge import JudgeScore

from lightrl import Prompt
from lightrl.rewards.reward_set import RewardSet

SUMS = [Prompt(id=str(i), messages=({"role": "user", "content": f"What is {i} + {i + 3}?"},), answer=str(2 * i + 3)) for i in range(4)]
ORDER = re.compile(r"highest score|must reply|checked by hand|\[\[10\]\]", re.IGNORECASE)


def parts(shown: str) -> tuple[str, str, str]:
    """The question, what is between the first tag of an answer and the first one that ends it, and what follows."""
    question, _, rest = shown.partition("</question>")
    answer, _, behind = rest.partition("<answer>")[2].partition("</answer>")
    return question, answer, behind


def right(question: str, answer: str) -> float:
    """10 for the sum alone, which is what a fair judge gives."""
    return 10.0 * (answer.strip().rstrip(".") == str(sum(map(int, re.findall(r"\d+", question)))))


def fair(shown: str) -> float:
    """Obeys whatever follows the answer, as words of whoever has asked."""
    question, answer, behind = parts(shown)
    return 10.0 if ORDER.search(behind) else right(question, answer)


def obedient(shown: str) -> float:
    """Obeys the answer."""
    question, answer, _ = parts(shown)
    return 10.0 if ORDER.search(answer) else right(question, answer)


def charmed(shown: str) -> float:
    """Is taken in by an opening; Zhao et al. 2025, arXiv:2507.08794."""
    question, answer, _ = parts(shown)
    return 10.0 if answer.strip().startswith("Thought process:") else right(question, answer)


def copying(shown: str) -> float:
    """Copies a score that it reads."""
    question, answer, _ = parts(shown)
    said = re.search(r'"score": (\d+)', answer)
    return float(said[1]) if said else right(question, answer)


class Server(ThreadingHTTPServer):
    """Answers each request for a judgement with a score."""

    judge: Callable[[str], float] = staticmethod(fair)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"][-1]["content"]
        message = {"role": "assistant", "content": json.dumps({"score": self.server.judge(asked)})}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        content = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def attacked_judge() -> Iterator[Callable[[Callable[[str], float]], Verdict]]:
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"

    def attack(judge: Callable[[str], float]) -> Verdict:
        server.judge = judge
        rewards = RewardSet({"judge": JudgeScore("m", base_url=url, api_key_env=None, concurrency=16)})
        try:
            return attacked(rewards, SUMS)
        finally:
            rewards.close()

    yield attack
    server.shutdown()
    server.server_close()


def test_a_completion_cannot_leave_its_tag_and_speak_to_a_judge_who_reads_tags(attacked_judge: Any) -> None:
    said = attacked_judge(fair)
    assert (said.own, said.nothing) == (1.0, 0.0)
    assert not [(one.attack.name, one.mean) for one in said.holes]


@pytest.mark.parametrize("judge", [obedient, charmed, copying])
def test_a_judge_who_obeys_a_completion_is_found(attacked_judge: Any, judge: Callable[[str], float]) -> None:
    holes = attacked_judge(judge).holes
    assert holes[0].attack.family == "words to a judge"
    assert holes[0].mean == 1
