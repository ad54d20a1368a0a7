"""Each kind of bad input through `lightrl fit`: a short error that names the key or the row, and nothing written."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightrl import TinyPolicy


def jsonl(path: Path, *lines: str) -> str:
    path.write_text("".join(line + "\n" for line in lines))
    return str(path)


def file_data(path: str, **fields: Any) -> dict[str, Any]:
    return {"train": {"class_path": "JsonLines", "init_args": {"path": path, "chat": False, **fields}}}


ROW = json.dumps({"prompt": "12=", "answer": "12"})
OTHER = json.dumps({"prompt": "34=", "answer": "34"})
LONG = json.dumps({"prompt": "1" * 40, "answer": "1"})


def without_eos(tmp_path: Path) -> str:
    folder = tmp_path / "no-eos"
    TinyPolicy(hidden=16, layers=1, heads=2).build().save(folder)
    for name, key in (("tokenizer_config.json", "eos_token"), ("generation_config.json", "eos_token_id"), ("config.json", "eos_token_id")):
        content = json.loads((folder / name).read_text())
        content.pop(key, None)
        (folder / name).write_text(json.dumps(content))
    return str(folder)


def own_module(folder: Path, text: str) -> Path:
    file = folder / "needs_more.py"
    file.write_text(text + "\n\ndef score(completion: str) -> float:\n    return 1.0\n")
    return file


CASES: dict[str, tuple[Callable[[Path], dict[str, Any]], list[str]]] = {
    "unknown key": (lambda p: {"model.prompts_per_rolout": 4}, ["model.prompts_per_rolout", "prompts_per_rollout"]),
    "misspelt part": (lambda p: {"model.algorithm.init_args.clip": "DecoupledClipp"}, ["model.algorithm.clip", "'DecoupledClip'"]),
    "wrong type": (lambda p: {"model.prompts_per_rollout": "many"}, ["model.prompts_per_rollout", "many", "int"]),
    "unknown prompt field": (lambda p: {"data": file_data(jsonl(p / "a.jsonl", ROW), prompt="promt")}, ["data.train", "promt", "prompt"]),
    "empty data file": (lambda p: {"data": file_data(jsonl(p / "a.jsonl"))}, ["data.train", "a.jsonl", "holds no rows"]),
    "a CSV file as JSON lines": (
        lambda p: {"data": file_data(jsonl(p / "a.csv", "prompt,answer", "12=,12"))},
        ["data.train", "no file of JSON lines", "DatasetPrompts"],
    ),
    "a reward whose module imports what is not installed": (
        lambda p: {"model.rewards": {"own": f"{own_module(p, 'import no_such_package').stem}.score"}},
        ["model.rewards.own", "needs_more imports it, and it is not installed"],
    ),
    "malformed json line": (lambda p: {"data": file_data(jsonl(p / "a.jsonl", ROW, "{oops"))}, ["data.train", "a.jsonl:2"]),
    "prompt longer than the limit": (
        lambda p: {"data": {**file_data(jsonl(p / "a.jsonl", ROW, OTHER, LONG)), "max_prompt_tokens": 20, "too_long": "raise"}},
        ["data", "1 have more than 20 tokens", "longest 40", "too_long"],
    ),
    "group size 1 with a group advantage": (
        lambda p: {"model.algorithm.init_args.sampler.init_args.group_size": 1},
        ["model.algorithm", "group_size", "GroupNormalized"],
    ),
    "a string for a tokenizer without a chat template": (
        lambda p: {"data": file_data(jsonl(p / "a.jsonl", ROW, OTHER), chat=True)},
        ["data: ", "has no chat template", "chat: false"],
    ),
    "missing model folder": (
        lambda p: {"model.policy": {"class_path": "PretrainedPolicy", "init_args": {"path": "./nowhere"}}},
        ["model.policy", "./nowhere"],
    ),
    "tokenizer without EOS": (
        lambda p: {"model.policy": {"class_path": "PretrainedPolicy", "init_args": {"path": without_eos(p)}}},
        ["model.policy", "EOS", "eos_token"],
    ),
}


@pytest.fixture(autouse=True)
def silent_lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning's own log goes to a stream that an earlier test has closed."""
    monkeypatch.setattr(logging, "raiseExceptions", False)


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_a_short_error(
    lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any], tmp_path: Path, case: str
) -> None:
    make, wanted = CASES[case]
    config["model"]["prompts_per_rollout"] = 2
    for key, value in make(tmp_path).items():
        node = config
        *parents, last = key.split(".")
        for name in parents:
            node = node[name]
        node[last] = value
    answer = lightrl("fit", "--config", str(write("bad.yaml", config)))
    assert answer.status == 2
    assert all(word in answer.err for word in wanted), answer.err
    assert "Traceback" not in answer.err
    assert len(answer.lines) <= 3, answer.err
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_plugin_that_raises_on_import_is_named_only_when_its_part_is_wanted(tmp_path: Path, config: dict[str, Any]) -> None:
    info = tmp_path / "broken_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lightrl.v1]\nbroken = broken_plugin\n")
    (tmp_path / "broken_plugin.py").write_text("import a_module_that_nobody_has\n")

    for clip in ("DecoupledClip", "BrokenClip"):
        config["model"]["algorithm"]["init_args"]["clip"] = clip
        (tmp_path / f"{clip}.yaml").write_text(yaml.safe_dump(config))
    script = (
        "import sys; from lightrl.cli import main\n"
        "assert main(['check', '--config', 'DecoupledClip.yaml']) == 0\n"
        "print('WANTED', file=sys.stderr)\n"
        "assert main(['check', '--config', 'BrokenClip.yaml']) == 2\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    wanted = done.stderr.partition("WANTED\n")[2]
    assert "no clip scheme is named 'BrokenClip'" in wanted
    assert "Plugin 'broken' (broken-plugin 1.0) did not load: ModuleNotFoundError" in wanted
    assert len(wanted.strip().splitlines()) <= 3


def test_a_reward_of_the_wrong_shape_stops_the_run_and_names_the_row(
    lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any], tmp_path: Path
) -> None:
    write("own_reward.py", "def pair(completion: str) -> list[float]:\n    return [1.0] * 99\n")
    config["model"]["rewards"] = {"mine": "own_reward.pair"}
    answer = lightrl("fit", "--config", str(write("bad.yaml", config)))
    assert answer.status == 2
    assert re.search(r"'mine', row 0 \(prompt 'sort6:\d+'\): .* 99 .* \d", answer.err), answer.err
    assert "Traceback" not in answer.err
    assert not list(tmp_path.rglob("*.ckpt"))
