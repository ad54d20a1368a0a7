"""A hub of models on this machine: the requests that huggingface_hub makes for an upload, answered from a dictionary."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

TOKEN = "hf_of_the_test"
COMMIT = "c" * 40


class Hub(ThreadingHTTPServer):
    """Repositories by name, each with its files; faults by the beginning of a path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.large: dict[str, bytes] = {}
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.faults: dict[str, int] = {}
        """Status by a word in the path; 0 cuts the connection."""
        self.ignored: set[str] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def make(self, name: str, private: bool, **files: bytes) -> None:
        self.repositories[name], self.private[name] = {".gitattributes": b"", **files}, private


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self.received()

    def do_POST(self) -> None:
        self.received()

    def do_PUT(self) -> None:
        self.received()

    def received(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        self.server.requests.append(f"{self.command} {path}")
        for word, status in self.server.faults.items():
            if word in path:
                self.close_connection = True
                return None if status == 0 else self.answer({"error": "planted"}, status)
        if not path.startswith("/large/") and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer({"error": "Invalid credentials"}, 401)
        return self.answer_to(path, body)

    def answer_to(self, path: str, body: bytes) -> None:
        hub, parts = self.server, path.strip("/").split("/")
        if path == "/api/whoami-v2":
            return self.answer({"name": "owner"})
        if path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            hub.make(name, asked.get("private") or asked.get("visibility") == "private")
            return self.answer({"url": f"{hub.address}/{name}"})
        if path.startswith("/large/"):
            hub.large[parts[1]] = body
            return self.answer({})
        if path.endswith("/info/lfs/objects/batch"):
            return self.answer({"objects": [self.place_of(one) for one in json.loads(body)["objects"]]})
        name = "/".join(parts[2:4])
        if name not in hub.repositories:
            return self.answer({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        if "preupload" in parts:
            return self.answer({"files": [self.mode_of(one) for one in json.loads(body)["files"]]})
        if "commit" in parts:
            self.commit(hub.repositories[name], [json.loads(line) for line in body.splitlines()])
            return self.answer({"commitUrl": f"{hub.address}/{name}/commit/{COMMIT}", "commitOid": COMMIT})
        siblings = [{"rfilename": file} for file in hub.repositories[name]]
        return self.answer({"id": name, "private": hub.private[name], "sha": COMMIT, "siblings": siblings})

    def place_of(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {**asked, "actions": {"upload": {"href": f"{self.server.address}/large/{asked['oid']}"}}}

    def mode_of(self, asked: dict[str, Any]) -> dict[str, Any]:
        mode = "lfs" if asked["path"].endswith(".safetensors") else "regular"
        return {"path": asked["path"], "uploadMode": mode, "shouldIgnore": asked["path"] in self.server.ignored}

    def commit(self, files: dict[str, bytes], lines: list[dict[str, Any]]) -> None:
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                self.server.messages.append(value["summary"])
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            else:
                files[value["path"]] = self.server.large[value["oid"]]
                assert hashlib.sha256(files[value["path"]]).hexdigest() == value["oid"]

    def answer(self, value: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        for key, content in {"Content-Type": "application/json", "Content-Length": str(len(text)), **(headers or {})}.items():
            self.send_header(key, content)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments: object) -> None:
        """Say nothing on the terminal."""


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub that answers until the block ends."""
    with Hub() as hub:
        Thread(target=hub.serve_forever, daemon=True).start()
        yield hub
        hub.shutdown()
