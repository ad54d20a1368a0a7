"""`lightrl sample`: completions that are worth learning from, as a file that training reads."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from lightrl_workshop import rollouts_with

from lightrl import JsonLines, PretrainedPolicy

REWARDS = """
import signal
from pathlib import Path

def length(completion):
    return float(len(completion)) / 8

def interrupts(completion):
    asked = Path("asked.txt")
    asked.write_text((asked.read_text() if asked.exists() else "") + ".")
    if len(asked.read_text()) == 27:
        signal.raise_signal(signal.SIGINT)
    return float(len(completion)) / 8

def breaks(completion):
    raise KeyError("tests")

def level(level):
    return level
"""
SIZES = ("--n", "4", "--prompts", "12", "--prompts_at_a_time", "4")


def rewarded(config: dict[str, Any], name: str = "length", **arguments: Any) -> dict[str, Any]:
    config["model"]["rewards"] = {name: {"path": f"sampled_rewards.{name}", "runs": "inline", **arguments}}
    return config


@pytest.fixture
def sample(lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any]) -> Callable[..., Any]:
    """Call `lightrl sample` with a config that likes long answers."""
    write("sampled_rewards.py", REWARDS)
    write("sample.yaml", rewarded(config))

    def sample(*words: str, config: str = "sample.yaml") -> Any:
        return lightrl("sample", "--config", config, *SIZES, *words)

    return sample


def rows(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_the_best_of_all_completions_are_kept_and_read_as_demonstrations(sample: Callable[..., Any]) -> None:
    everything, best = sample("--keep", "all", "--out", "all.jsonl"), sample("--out", "deep/best.jsonl")
    assert (everything.status, best.status) == (0, 0), everything.err + best.err
    assert "48 rows: all.jsonl" in everything.out
    drawn, kept = rows("all.jsonl"), rows("deep/best.jsonl")
    assert len({row["id"] for row in drawn}) == 12
    expected = {}
    for row in drawn:
        if row["finish_reason"] == "stop" and row["completion"].strip():
            expected[row["id"]] = max(row["reward"], expected.get(row["id"], 0.0))
    assert {row["id"]: row["reward"] for row in kept} == expected
    assert all(row["rewards"] == {"length": row["reward"]} and row["reward"] == len(row["completion"]) / 8 for row in kept)
    source = JsonLines("deep/best.jsonl", answer="completion", chat=False)
    assert [(source.prompt(i).text, source.prompt(i).answer) for i in range(source.size)] == [(r["prompt"], r["completion"]) for r in kept]
    table = " ".join(best.out.split())
    cut = sum(row["finish_reason"] == "length" for row in drawn)
    assert f"prompts 12 completions 48 without a score 0 cut at the token limit {cut}" in table
    assert f"rows kept {len(kept)} prompts without one {12 - len(kept)}" in table
    assert not list(Path("deep").glob("*.*[fs]"))


def test_all_above_a_threshold_are_kept_once_each(sample: Callable[..., Any]) -> None:
    assert sample("--keep", "all", "--out", "all.jsonl").status == 0
    answer = sample("--keep", "threshold", "--at_least", "0.5", "--out", "good.jsonl")
    assert answer.status == 0, answer.err
    good = [r for r in rows("all.jsonl") if r["reward"] >= 0.5 and r["finish_reason"] == "stop" and r["completion"].strip()]
    assert sorted((r["id"], r["completion"]) for r in rows("good.jsonl")) == sorted({(r["id"], r["completion"]) for r in good})
    right = sum(r["reward"] >= 0.5 for r in rows("all.jsonl")) / 48
    assert f"pass@1 (a reward of at least 0.5) {right:.4f}" in " ".join(answer.out.split())


def test_pairs_train_preferences_and_reward_models(
    sample: Callable[..., Any], lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any]
) -> None:
    answer = sample("--keep", "pairs", "--out", "pairs.jsonl")
    assert answer.status == 0, answer.err
    pairs = rows("pairs.jsonl")
    assert pairs
    assert all(row["margin"] == row["chosen_reward"] - row["rejected_reward"] > 0 for row in pairs)
    assert f"rows kept {len(pairs)} prompts without one {12 - len(pairs)}" in " ".join(answer.out.split())
    data = {"train": {"class_path": "JsonLines", "init_args": {"path": "pairs.jsonl", "chat": False}}}
    policy = {"policy": config["model"]["policy"], "batch_size": 2}
    for module, more in {"PreferenceOptimization": {"objective": "DPO"}, "RewardModeling": {"columns": {"margin": "margin"}}}.items():
        write(
            "offline.yaml",
            {
                "trainer": {**config["trainer"], "max_steps": 1},
                "model": {"class_path": module, "init_args": {**policy, **more}},
                "data": data,
            },
        )
        trained = lightrl("fit", "--config", "offline.yaml")
        assert trained.status == 0, trained.err


@pytest.fixture
def ctrl_c_works() -> Iterator[None]:
    """Within, SIGINT raises KeyboardInterrupt: a worker of pytest-xdist ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_works")
def test_an_interrupted_command_goes_on_and_ends_in_the_same_file(sample: Callable[..., Any], write: Callable[..., Path]) -> None:
    assert sample("--keep", "all", "--out", "whole.jsonl").status == 0
    write("again.yaml", rewarded(yaml.safe_load(Path("sample.yaml").read_text()), "interrupts"))
    stopped = sample("--keep", "all", "--out", "parts.jsonl", config="again.yaml")
    assert stopped.status == 130
    assert "Interrupted: 4 prompts are done and kept" in stopped.err
    assert not Path("parts.jsonl").exists()
    other = sample("--keep", "all", "--out", "parts.jsonl", "--n", "5", config="again.yaml")
    assert other.status == 2
    assert "'parts.jsonl' was begun by a command with other settings: options.n was 4 and is 5" in other.err
    # what a killed process has written behind its last note is made again
    with Path("parts.jsonl.unfinished").open("a") as file:
        file.write('{"half a')
    gone_on = sample("--keep", "all", "--out", "parts.jsonl", config="again.yaml")
    assert gone_on.status == 0, gone_on.err
    assert "4 prompts are done" in gone_on.err
    assert "completions 48" in " ".join(gone_on.out.split())
    assert len(Path("asked.txt").read_text()) == 27 + 32
    assert Path("parts.jsonl").read_text().replace("interrupts", "length") == Path("whole.jsonl").read_text()
    assert sorted(path.name for path in Path().glob("parts*")) == ["parts.jsonl"]


def test_a_checkpoint_gives_the_weights(sample: Callable[..., Any], lightrl: Callable[..., Any]) -> None:
    assert lightrl("fit", "--config", "sample.yaml", "--model.optimizer", "SGD", "--model.optimizer.lr", "5").status == 0
    assert sample("--keep", "all", "--out", "before.jsonl").status == 0
    after = sample("--keep", "all", "--out", "after.jsonl", "--ckpt_path", "last")
    assert after.status == 0, after.err
    assert lightrl("export", "--config", "sample.yaml", "--ckpt_path", "last", "--out", "policy").status == 0
    folder = ["--model.policy", "PretrainedPolicy", "--model.policy.path", "policy"]
    assert sample("--keep", "all", "--out", "exported.jsonl", *folder).status == 0
    assert rows("after.jsonl") == rows("exported.jsonl") != rows("before.jsonl")


def test_where_nothing_is_good_enough_no_file_is_written(sample: Callable[..., Any]) -> None:
    answer = sample("--at_least", "9", "--out", "best.jsonl")
    assert answer.status == 1
    assert "Nothing was kept, and no file is written" in answer.err
    assert "prompts without one 12" in " ".join(answer.out.split())
    assert not list(Path().glob("best*"))


def test_a_reward_that_keeps_failing_ends_it_with_what_is_done_kept(sample: Callable[..., Any], write: Callable[..., Path]) -> None:
    write("broken.yaml", rewarded(yaml.safe_load(Path("sample.yaml").read_text()), "breaks", max_error_rate=0.1, error_window=16))
    answer = sample("--keep", "all", "--out", "all.jsonl", config="broken.yaml")
    assert answer.status == 2
    assert "reward 'breaks'" in answer.err
    assert "0 prompts are done and kept" in answer.err
    mended = rewarded(yaml.safe_load(Path("sample.yaml").read_text()))
    write("broken.yaml", mended)
    assert sample("--keep", "all", "--out", "all.jsonl", config="broken.yaml").status == 0
    assert sample("--keep", "all", "--out", "whole.jsonl").status == 0
    assert rows("all.jsonl") == rows("whole.jsonl")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--out: not given"),
        (["--keep", "all", "--at_least", "1", "--out", "x"], "--at_least: --keep all has no use for it. It has for: none"),
        (["--keep", "best", "--margin", "1", "--out", "x"], "It has for: --per_prompt, --at_least"),
        (["--keep", "threshold", "--out", "x"], "--at_least: not given: which reward is good enough?"),
        (["--keep", "pairs", "--n", "1", "--out", "x"], "a pair needs two completions"),
        (["--n", "0", "--out", "x"], "--n: expected 1 or more, got 0"),
        (["--prompts", "1000", "--out", "x"], "there are 92 training prompts, got 1,000"),
        (["--out", "sampled_rewards.py"], "'sampled_rewards.py' is there already, and nothing is overwritten"),
        (["--ckpt_path", "last", "--out", "x"], "there is no checkpoint below"),
        (["--device", "cuda:99", "--out", "x"], "--device: 'cuda:99' cannot be used"),
        (["--model.rewards.level", "sampled_rewards.level", "--out", "x"], "wants the argument 'level'"),
        (["--model.policy.hiden", "3", "--out", "x"], "has no argument 'hiden'"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_before_anything_is_drawn(sample: Callable[..., Any], words: list[str], said: str) -> None:
    answer = sample(*words)
    assert answer.status == 2
    assert said in " ".join(answer.err.split())
    assert not Path("x").exists()


@pytest.mark.thorough
def test_a_policy_learns_from_its_own_best_answers(lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any]) -> None:
    """From a third of the answers right to more than two thirds."""

    def stage(name: str, steps: int, stop: float, policy: dict[str, Any], data: dict[str, Any]) -> None:
        callbacks = [
            {"class_path": "lightning.pytorch.callbacks.EarlyStopping", "init_args": {
                "monitor": "val/rewards/right/mean", "mode": "max", "stopping_threshold": stop, "patience": 1000}},
            {"class_path": "lightrl.callbacks.export_policy.ExportPolicy", "init_args": {"folder": name}},
        ]  # fmt: skip
        trainer = {
            **config["trainer"],
            "max_steps": steps,
            "val_check_interval": 5,
            "check_val_every_n_epoch": None,
            "callbacks": callbacks,
        }
        optimizer = {"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.003}}
        model = {
            "policy": policy,
            "rewards": {"right": {"class_path": "ExactMatch", "init_args": {"runs": "inline"}}},
            "engine": {"max_new_tokens": 6},
            "optimizer": optimizer,
        }
        write(f"{name}.yaml", {"trainer": trainer, "model": {"class_path": "SupervisedFineTuning", "init_args": model}, "data": data})
        answer = lightrl("fit", "--config", f"{name}.yaml")
        assert answer.status == 0, answer.err

    def accuracy(folder: str) -> float:
        policy, right = PretrainedPolicy(folder).build(), 0
        from lightrl import DigitSorting, TransformersEngine

        rollouts = rollouts_with(policy, TransformersEngine(max_new_tokens=6, seed=5))
        held = DigitSorting(length=3, examples=900, seed=0)
        asked = [held.prompt(i) for i in range(700, 900)]
        rollout = rollouts.rollout(asked, 4)
        right = sum(text == prompt.answer for text, prompt in zip(rollout.completions, rollout.prompts, strict=True))
        return right / 800

    torch.manual_seed(0)
    tasks = {"train": {"class_path": "DigitSorting", "init_args": {"length": 3, "examples": 700, "seed": 0}}, "validation_size": 64}
    stage("begun", 400, 0.3, {"class_path": "TinyPolicy", "init_args": {"hidden": 48, "layers": 2}}, tasks)
    drawn = lightrl(
        "sample",
        "--config",
        "begun.yaml",
        "--model.policy",
        "PretrainedPolicy",
        "--model.policy.path",
        "begun",
        "--at_least",
        "1",
        "--out",
        "best.jsonl",
    )
    assert drawn.status == 0, drawn.err
    best = {
        "train": {"class_path": "JsonLines", "init_args": {"path": "best.jsonl", "answer": "completion", "chat": False}},
        "validation_size": 32,
    }
    stage("learnt", 120, 2.0, {"class_path": "PretrainedPolicy", "init_args": {"path": "begun"}}, best)
    before, after = accuracy("begun"), accuracy("learnt")
    assert before < 0.6
    assert after > before + 0.2


def test_low_a_folder_is_no_file_for_the_answer(lightrl: Any) -> None:
    answer = lightrl("sample", "--config", "run.yaml", "--keep", "best", "--out", ".")
    assert answer.status == 2
    assert "--out" in answer.err
