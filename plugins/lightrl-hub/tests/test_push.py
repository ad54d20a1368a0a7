"""What is pushed to the hub is what the command says: tried against a dummy of the hub's API on this machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard, constants

from lightrl import TinyPolicy

_spec = importlib.util.spec_from_file_location("dummy_hub", Path(__file__).with_name("dummy_hub.py"))
assert _spec is not None
assert _spec.loader is not None
dummy_hub = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(dummy_hub)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    with dummy_hub.running_hub() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        # files in chunks go to servers of their own
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no_token"))
        monkeypatch.setenv("HF_TOKEN", dummy_hub.TOKEN)
        yield hub


@pytest.fixture
def model(write: Callable[..., Path], tmp_path: Path) -> Path:
    """A folder as `lightrl export` writes it, with a file in a folder of its own."""
    TinyPolicy(hidden=8, layers=1, heads=2).build().save(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("---\nlicense: unknown\n---\n# model\n")
    (tmp_path / "model" / "more").mkdir(exist_ok=True)
    (tmp_path / "model" / "more" / "empty.txt").write_bytes(b"")
    return tmp_path / "model"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pushed(hub: Any, name: str = "owner/name") -> dict[str, bytes]:
    return {path: content for path, content in hub.repositories[name].items() if path != ".gitattributes"}


@pytest.mark.thorough
def test_export_and_push_sends_the_bytes_of_the_folder_and_nothing_else(
    lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any], hub: Any
) -> None:
    write("train.yaml", config)
    assert lightrl("fit", "--config", "train.yaml").status == 0
    words = ("export", "--config", "train.yaml", "--ckpt_path", "last", "--out", "out")
    answer = lightrl(*words, "--push=owner/name")
    assert answer.status == 0, answer.err
    assert pushed(hub) == contents(Path("out"))
    assert hub.private == {"owner/name": True}
    assert hub.messages == ["Upload out, exported by lightrl"]
    total = sum(map(len, contents(Path("out")).values()))
    assert f"To {hub.address}/owner/name (private, new): {len(contents(Path('out')))} files, {total:,} bytes" in answer.out
    assert f"Pushed: {hub.address}/owner/name" in answer.out
    assert dummy_hub.TOKEN not in answer.out + answer.err
    card = ModelCard.load("out/README.md")
    assert card.data.license == "unknown"
    assert card.data.library_name == "transformers"
    assert "No licence is stated yet" in card.text
    # the core's own verb is as it was
    assert lightrl("export", "--config", "train.yaml", "--ckpt_path", "last", "--out", "again").status == 0
    assert "--adapter_only" in str(lightrl("export", "--help").out)


def test_the_card_names_the_data_sets_of_the_hub(
    lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any], tmp_path: Path
) -> None:
    from lightrl.cli.export.model_card import model_card
    from lightrl.config import read_words, resolve

    config["data"]["train"] = {"class_path": "DatasetPrompts", "init_args": {"name": "openai/gsm8k", "subset": "main"}}
    config["data"]["validation"] = {"class_path": "DatasetPrompts", "init_args": {"name": "openai/gsm8k", "split": "test"}}
    path = write("hub.yaml", config)
    head = yaml.safe_load(model_card(resolve("predict", read_words(["--config", str(path)])), {}, "out", False).split("---")[1])
    assert head["datasets"] == ["openai/gsm8k"]


def test_a_folder_is_pushed_as_the_command_says(lightrl: Callable[..., Any], model: Path, hub: Any) -> None:
    answer = lightrl("push", "model", "owner/name", "--public", "--message", "First")
    assert answer.status == 0, answer.err
    assert pushed(hub) == contents(model)
    assert hub.private == {"owner/name": False}
    (model / "README.md").write_text("---\nlicense: mit\n---\n")
    hub.repositories["owner/name"]["notes.txt"] = b"mine"
    refused = lightrl("push", "model", "owner/name", "--public")
    assert refused.status == 2
    assert "the repository exists and has files" in refused.err
    assert hub.messages == ["First"]
    assert lightrl("push", "model", "owner/name", "--public", "--update").status == 0
    assert pushed(hub) == {**contents(model), "notes.txt": b"mine"}


@pytest.mark.parametrize(
    ("words", "changes", "message"),
    [
        (("model", "name"), {}, "has an owner and a name"),
        (("model", "owner/a b"), {}, "OWNER/NAME"),
        (("model", "owner/name"), {"HF_TOKEN": ""}, "hf auth login"),
        (("model", "owner/name"), {"HF_TOKEN": "hf_other"}, "does not know the token"),
        (("model", "owner/name"), {"offline": "1"}, "HF_HUB_OFFLINE"),
        (("model", "owner/public"), {}, "the repository is public"),
        (("model", "owner/private", "--public"), {}, "is private and would stay so"),
        ((".", "owner/name"), {}, "no exported model"),
        (("hidden", "owner/name"), {}, "hidden file"),
        (("model", "owner/name", "--message", " "), {}, "--message"),
    ],
)
def test_what_the_command_does_not_say_is_refused_and_nothing_is_sent(
    words: tuple[str, ...], changes: dict[str, str], message: str, lightrl: Callable[..., Any], model: Path, hub: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    hub.make("owner/public", private=False)
    hub.make("owner/private", private=True)
    hidden = model.parent / "hidden"
    hidden.mkdir()
    (hidden / "config.json").write_text("{}")
    (hidden / ".env").write_text("KEY=1")
    if changes.pop("offline", None):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    answer = lightrl("push", *words)
    assert answer.status == 2
    assert message in answer.err
    assert len(answer.lines) <= 3
    assert "hf_other" not in answer.err
    assert not [request for request in hub.requests if request.startswith(("POST", "PUT"))]


@pytest.mark.parametrize(
    ("word", "status", "message"),
    [
        ("create", 403, "the token may not write there (HTTP 403: planted)"),
        ("create", 409, "made by another command"),
        ("create", 429, "too many requests"),
        ("create", 0, "no connection to"),
        ("commit", 404, "does not find it"),
        ("commit", 500, "has a fault of its own (HTTP 500"),
        ("whoami", 503, "nothing was pushed"),
        ("whoami", 0, "nothing was pushed"),
    ],
)
def test_a_fault_of_the_hub_is_a_message_and_the_folder_stays(
    word: str, status: int, message: str, lightrl: Callable[..., Any], model: Path, hub: Any
) -> None:
    before = contents(model)
    hub.faults[word] = status
    answer = lightrl("push", "model", "owner/name", "--public")
    assert answer.status == 2
    assert message in " ".join(answer.err.split())
    assert "Traceback" not in answer.err
    assert contents(model) == before
    if word != "whoami":
        assert "The folder stays: lightrl push model owner/name --public" in " ".join(answer.err.split())
    hub.faults.clear()
    assert lightrl("push", "model", "owner/name", "--public").status == 0
    assert pushed(hub) == before


def test_a_file_that_the_hub_leaves_out_is_said(lightrl: Callable[..., Any], model: Path, hub: Any) -> None:
    hub.ignored.add("more/empty.txt")
    answer = lightrl("push", "model", "owner/name")
    assert answer.status == 2
    assert "has left out more/empty.txt" in answer.err
