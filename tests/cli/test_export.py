"""`lightrl export` writes what plain transformers loads, and the folder says the same as the policy that was trained."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from lightrl_workshop import rollouts_with
from peft import PeftModel
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from lightrl import PretrainedPolicy, Prompt, TinyPolicy, TransformersEngine
from lightrl.config.build.builder import Builder
from lightrl.config.merge.resolve import resolve
from lightrl.config.read.settings import read_words

LORA: dict[str, Any] = {
    "class_path": "LoraPolicy",
    "init_args": {"r": 2, "base": {"class_path": "TinyPolicy", "init_args": {"hidden": 16, "layers": 1}}},
}
LENGTH = "def length(completion):\n    return float(len(set(completion)))\n"
PLAIN = """
import json, sys
from transformers import AutoModelForCausalLM, AutoTokenizer
assert not any(name.split(".")[0] == "lightrl" for name in sys.modules)
model, tokenizer = AutoModelForCausalLM.from_pretrained(sys.argv[1]), AutoTokenizer.from_pretrained(sys.argv[1])
found = []
for text in json.loads(sys.argv[2]):
    ids = tokenizer(text, return_tensors="pt").input_ids
    out = model.generate(ids, max_new_tokens=8, do_sample=False, pad_token_id=0)[0, ids.shape[1]:]
    found.append(tokenizer.decode(out, skip_special_tokens=True))
print(json.dumps(found))
"""
"""Greedy completions by transformers alone."""
PROMPTS = ["493027=", "11=", "(2+3)*4="]


def trained(config: dict[str, Any], write: Callable[..., Path], run: Callable[..., Any], **changes: Any) -> Path:
    """The newest checkpoint of a run that learns enough to differ from its start."""
    write("lengths.py", LENGTH)
    config["model"] |= {"rewards": {"length": {"path": "lengths.length", "runs": "inline"}}, "optimizer": {"lr": 0.02}, **changes}
    write("train.yaml", config)
    run("fit", "--config", "train.yaml")
    return max(Path("runs").rglob("*.ckpt"), key=lambda p: p.stat().st_mtime)


def greedy(policy: Any) -> list[str]:
    rollouts = rollouts_with(policy, TransformersEngine(max_new_tokens=8, temperature=0))
    return rollouts.rollout([Prompt(id=text, text=text) for text in PROMPTS], 1).completions


def in_the_checkpoint(config: Path, checkpoint: Path) -> Any:
    """The policy of a one-file checkpoint, by the config's own source."""
    policy = Builder().build(resolve("predict", read_words(["--config", str(config)])).model.value("policy"), "model.policy").build()
    state = torch.load(checkpoint, weights_only=True)["state_dict"]
    policy.load_state_dict({name.removeprefix("policy."): value for name, value in state.items() if name.startswith("policy.")})
    return policy


def by_transformers(folder: Path) -> list[str]:
    import json

    words = [sys.executable, "-c", PLAIN, str(folder), json.dumps(PROMPTS)]
    found = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    return json.loads(found.stdout)


@pytest.mark.parametrize("policy", [None, LORA], ids=["whole", "lora"])
def test_the_folder_says_what_the_trained_policy_says(
    policy: Any, lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any], tmp_path: Path
) -> None:
    checkpoint = trained(config, write, lightrl, **({} if policy is None else {"policy": policy}))
    answer = lightrl("export", "--ckpt_path", str(checkpoint), "--out", "out")
    assert answer.status == 0, answer.err
    mine = in_the_checkpoint(tmp_path / "train.yaml", checkpoint)
    expected = greedy(mine)
    assert expected != greedy(TinyPolicy(hidden=16, layers=1).build()), "the run has learnt something"
    assert by_transformers(tmp_path / "out") == expected
    exported = PretrainedPolicy("out").build()
    assert greedy(exported) == expected
    assert exported.model.config.tie_word_embeddings
    assert exported.model.config.vocab_size == len(exported.tokenizer) == 24
    with safe_open("out/model.safetensors", "pt") as file:
        assert not any("lora" in name for name in file.keys())  # noqa: SIM118
    card = Path("out/README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["tags"] == ["lightrl", "reinforcement-learning", "grpo"]
    for line in ("| rollouts | 2 |", "| optimizer steps | 2 |", "SymmetricClip(epsilon=0.1)", "| `val/rewards/length/mean` |"):
        assert line in card


def test_adapters_alone_and_another_dtype(
    lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any], tmp_path: Path
) -> None:
    checkpoint = trained(config, write, lightrl, policy=LORA)
    weights = sum(w.numel() for w in torch.load(checkpoint, weights_only=True)["state_dict"].values())
    source = Builder().build(resolve("predict", read_words(["--config", "train.yaml"])).model.value("policy"), "model.policy")
    assert weights == source.trainable() + 16, "the checkpoint holds the adapters and the hash of their base"
    words = ("export", "--config", "train.yaml", "--ckpt_path", "last")
    assert lightrl(*words, "--out", "adapters", "--adapter_only").status == 0
    assert {p.name for p in Path("adapters").iterdir()} >= {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"}
    base = TinyPolicy(hidden=16, layers=1).build()
    loaded = PeftModel.from_pretrained(base.model, "adapters")
    mine = in_the_checkpoint(tmp_path / "train.yaml", checkpoint)
    ids = torch.randint(2, 24, (2, 9))
    assert torch.allclose(loaded(ids).logits, mine.model(ids).logits, atol=1e-6)
    assert lightrl(*words, "--out", "half", "--dtype", "bfloat16").status == 0
    half = AutoModelForCausalLM.from_pretrained("half")
    assert half.dtype == torch.bfloat16
    assert len(AutoTokenizer.from_pretrained("half")) == 24
    merged = mine.merged().model
    assert torch.equal(half.model.norm.weight, merged.model.norm.weight.bfloat16())


def test_what_cannot_be_exported_is_said_and_nothing_is_written(
    lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any], tmp_path: Path
) -> None:
    checkpoint = str(trained(config, write, lightrl))
    kept = write("taken/note.txt" if (tmp_path / "taken").mkdir() is None else "", "mine")
    Path("alone.ckpt").write_bytes(Path(checkpoint).read_bytes())
    cases = [
        (("--ckpt_path", checkpoint, "--out", "taken"), "'taken' is not empty"),
        (("--ckpt_path", "runs/none.ckpt", "--out", "out"), "there is no checkpoint"),
        (("--ckpt_path", "alone.ckpt", "--out", "out", "--config", "none.yaml"), "there is no file 'none.yaml'"),
        (("--ckpt_path", checkpoint, "--out", "out", "--adapter_only"), "no adapters"),
        (("--ckpt_path", checkpoint, "--out", "out", "--model.policy.hidden", "32"), "is not the one that the config describes"),
        (("--ckpt_path", "last", "--out", "out"), "last of which runs"),
    ]
    for words, message in cases:
        answer = lightrl("export", *words)
        assert answer.status == 2
        assert message in answer.err
        assert len(answer.lines) <= 3
    assert not Path("out").exists()
    assert kept.read_text() == "mine"
    assert not list(tmp_path.glob("*.partial-*"))


def test_a_folder_where_nobody_may_write_is_refused_before_anything_is_read(lightrl: Callable[..., Any]) -> None:
    answer = lightrl("export", "--ckpt_path", "none.ckpt", "--out", "/proc/policy")
    assert answer.status == 1
    [line] = answer.lines
    assert line.startswith("'/proc/policy': Permission denied. Give a place where you may write: ")
    assert line.endswith("--out for what else")


def test_the_last_checkpoint_brings_what_its_run_was_given_on_the_command_line(
    lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any]
) -> None:
    write("train.yaml", config | {"rollouts": 1})
    assert lightrl("fit", "--config", "train.yaml", "--model.policy.hidden", "32").status == 0
    answer = lightrl("export", "--config", "train.yaml", "--ckpt_path", "last", "--out", "out")
    assert answer.status == 0, answer.err


STRATEGIES = [("fsdp2", LORA)]
MORE = [
    *((name, LORA) for name in ("ddp", "deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_3")),
    *((name, LORA["init_args"]["base"]) for name in ("deepspeed_stage_3", "fsdp2")),
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("strategy", "policy"),
    [*STRATEGIES, *(pytest.param(*more, marks=pytest.mark.rare) for more in MORE)],
    ids=[f"{strategy}, {policy['class_path']}" for strategy, policy in STRATEGIES + MORE],
)
def test_from_every_strategys_checkpoint(
    strategy: str, policy: dict[str, Any], write: Callable[..., Path], config: dict[str, Any], tmp_path: Path
) -> None:
    """The run's own export, from weights in memory, equals the export of its checkpoint."""

    def run(*words: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tmp_path), "MASTER_ADDR": "127.0.0.1"}
        environment.pop("LOCAL_RANK", None)
        done = subprocess.run([sys.executable, "-m", "lightrl", *words], env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr

    callbacks = [{"class_path": "lightrl.callbacks.export_policy.ExportPolicy"}]
    config["trainer"] |= {"devices": 2, "strategy": strategy, "callbacks": callbacks}
    checkpoint = trained(config, write, run, policy=policy)
    assert checkpoint.is_dir() == strategy.startswith("deepspeed")
    # a process of its own: one that has not imported DeepSpeed could not read its files
    run("export", "--ckpt_path", str(checkpoint), "--out", "out")
    by_the_run = str(next(Path("runs").rglob("policy")))
    expected = greedy(PretrainedPolicy(by_the_run).build())
    assert greedy(PretrainedPolicy("out").build()) == expected
    assert by_transformers(tmp_path / "out") == expected
    with safe_open("out/model.safetensors", "pt") as one, safe_open(f"{by_the_run}/model.safetensors", "pt") as other:
        assert set(one.keys()) == set(other.keys())
        assert all(torch.allclose(one.get_tensor(name), other.get_tensor(name), atol=1e-6) for name in one.keys())  # noqa: SIM118
