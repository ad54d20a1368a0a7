"""`lightrl replay`: what a run learnt from a rollout, learnt once more, and compared with what another algorithm makes of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lightrl.algorithms.declaration import slots_of
from lightrl.registry.classes import registry

RECORDS = {"class_path": "RecordRollouts", "init_args": {"every": 2, "checkpoint": True}}
FEW = ("PPO",)
"""Tried also where only fast tests are: it has a critic."""
REWARD = {"class_path": "Function", "init_args": {"path": "lightrl_workshop.toy.small_digits", "runs": "inline"}}


@pytest.fixture
def run(lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any]) -> Callable[..., Path]:
    """The folder of a run of three rollouts, of which the first and the third are recorded."""

    def run(algorithm: Any, **trainer: Any) -> Path:
        config["rollouts"] = 3
        config["model"] |= {
            "algorithm": algorithm,
            "rewards": {"small": REWARD},
            "optimizer": {"class_path": "AdamW", "init_args": {"lr": 0.01}},
        }
        config["trainer"] |= {"callbacks": [RECORDS], "enable_checkpointing": False} | trainer
        write("recorded.yaml", config)
        answer = lightrl("fit", "--config", "recorded.yaml")
        assert answer.status == 0, answer.err
        return Path("runs/recorded/version_0")

    return run


def algorithms() -> list[Any]:
    names = sorted({cls.__name__ for _, cls in registry().of_kind("algorithm")})
    return [pytest.param(name, marks=[] if name in FEW else [pytest.mark.thorough, pytest.mark.rare]) for name in names]


@pytest.mark.parametrize("name", algorithms())
@pytest.mark.filterwarnings("ignore")
def test_every_algorithm_finds_its_numbers_again_to_the_bit(
    name: str, run: Callable[..., Path], lightrl: Callable[..., Any], config: dict[str, Any]
) -> None:
    (found,) = (cls for _, cls in registry().of_kind("algorithm") if cls.__name__ == name)
    # whoever has a teacher learns from another policy of the same form
    teacher = (
        {"teacher": {"class_path": "Teacher", "init_args": {"policy": config["model"]["policy"]}}} if "teacher" in slots_of(found) else {}
    )
    folder = run({"class_path": name, "init_args": {"minibatches": 2, **teacher}})
    answer = lightrl("replay", str(folder), "--algorithm", name)
    assert answer.status == 0, answer.out + answer.err
    assert re.search(r"Found again: all \d\d+ numbers that the run logged of learning are the same, to the bit", answer.out)
    cosines = re.findall(r"cosine: gradient.*│ (\S.*?) +│", answer.out)
    if name == "VAPO":
        # its critic learns alone at first
        assert cosines == ["no gradient"] * 2
        return
    # a first step in which no row differs from its group has none
    assert set(cosines) <= {"1.000000000000", "no gradient"}, answer.out
    assert cosines[1] == "1.000000000000", answer.out


MIXTURE = {"class_path": "TinyMixture", "init_args": {"experts": 4, "hidden": 16, "layers": 2, "heads": 2}}
REPLAYED_ROUTES = {
    "class_path": "GRPO",
    "init_args": {
        "sampler": {"class_path": "GroupSampler", "init_args": {"group_size": 4}},
        "ratio": "ReplayedTokenRatio",
        "balance": {"class_path": "RouterBalance", "init_args": {"coefficient": 0.01}},
        "minibatches": 2,
    },
}


@pytest.mark.thorough
def test_a_mixture_of_experts_takes_the_recorded_routes_again(
    run: Callable[..., Path], lightrl: Callable[..., Any], config: dict[str, Any]
) -> None:
    config["model"]["policy"] = MIXTURE
    folder = run(REPLAYED_ROUTES)
    answer = lightrl("replay", str(folder))
    assert answer.status == 0, answer.out + answer.err
    assert re.search(r"Found again: all \d\d+ numbers that the run logged of learning are the same, to the bit", answer.out), answer.out
    (notes,) = (folder / "records" / "rollout=3").glob("*.json")
    assert {"rerouted/tokens", "rerouted/tokens_in_rollout", "balance_loss"} <= json.loads(notes.read_text())["numbers"].keys()
    without = lightrl("replay", str(folder), "--no_weights")
    assert without.status == 2
    assert "GRPO reads routes of whole distributions, which cannot be computed without weights" in " ".join(without.lines)


GROUPS = {"class_path": "GRPO", "init_args": {"sampler": {"class_path": "GroupSampler", "init_args": {"group_size": 4}}}}


def test_two_algorithms_and_what_cannot_be_replayed(run: Callable[..., Path], lightrl: Callable[..., Any], tmp_path: Path) -> None:
    folder = run(GROUPS)
    both = lightrl("replay", str(folder), "--rollout", "1", "--algorithm", "GSPO", "--rows", "1")
    assert both.status == 0, both.err
    assert "Rollout 1 in runs/recorded/version_0/records/rollout=1: 16 completions of 4 prompts" in both.out
    assert "GRPO and GSPO on the same rows" in both.out
    assert re.search(r"row \d+, prompt sort6:\d+: GRPO [+-].* %, GSPO [+-].* %; reward ", both.out)
    changed = lightrl("replay", str(folder), "--model.algorithm.clip.epsilon", "0.3", "--no_weights")
    assert changed.status == 0, changed.err
    assert "Found again: rewards, token weights and advantages are the run's, to the bit." in changed.out
    assert "GRPO and GRPO, changed on the same rows" in changed.out

    def refused(*words: str) -> str:
        answer = lightrl("replay", *words)
        assert answer.status == 2, answer.out
        return " ".join(answer.lines)

    run_ = str(folder)
    assert "rollout 2 is not recorded in 'runs/recorded/version_0'. Recorded: 1, 3." in refused(run_, "--rollout", "2")
    assert "'runs' has no recorded rollout. Type for example: lightrl replay runs/recorded/version_0" in refused("runs")
    assert "there is no folder 'runs/recorded/version_1'. Did you mean 'version_0'?" in refused("runs/recorded/version_1")
    assert "GAE of PPO needs the values of a critic, and the record of GRPO has none" in refused(run_, "--algorithm", "PPO", "--no_weights")
    assert "GreedyCentered of ReMax needs greedy_reward for each row" in refused(run_, "--algorithm", "ReMax", "--no_weights")
    assert "--data.train: a replay has everything else from the record and its config." in refused(run_, "--data.train", "x")
    assert "--trainer.devices: the record is of 1 rank, which 2 processes cannot share." in refused(run_, "--trainer.devices", "2")
    first = folder / "records" / "rollout=1" / "checkpoint.pt"
    assert "was written after 0 rollouts and 0 optimizer steps" in refused(run_, "--ckpt_path", str(first))
    held = torch.load(first, weights_only=True)
    torch.save({name: value for name, value in held.items() if name not in ("optimizer_states", "lr_schedulers")}, tmp_path / "light.ckpt")
    assert "was written without the optimizer" in refused(run_, "--ckpt_path", str(tmp_path / "light.ckpt"))
    (tmp_path / "empty").mkdir()
    assert "A run records its rollouts with --trainer.callbacks+=RecordRollouts" in refused("empty")


def test_a_record_without_its_run_says_what_differs_first(run: Callable[..., Path], lightrl: Callable[..., Any], tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    shutil.copytree(run(GROUPS) / "records" / "rollout=3", sent)
    (sent / "checkpoint.pt").rename(tmp_path / "weights")
    alone = lightrl("replay", str(sent))
    assert alone.status == 0, alone.err
    assert "Without weights (there is no checkpoint" in alone.out
    notes = json.loads((sent / "rank=0.json").read_text())
    notes["numbers"]["policy_loss"] += 1e-12
    (sent / "rank=0.json").write_text(json.dumps(notes))
    answer = lightrl("replay", str(sent), "--ckpt_path", str(tmp_path / "weights"))
    assert answer.status == 1
    assert "Not found again. The first difference: the numbers of the steps." in answer.out
    assert f"│ policy_loss │ {notes['numbers']['policy_loss']!r}" in answer.out
    notes["fingerprints"]["advantages"] = "0"
    (sent / "rank=0.json").write_text(json.dumps(notes))
    assert "The first difference: advantages." in lightrl("replay", str(sent), "--ckpt_path", str(tmp_path / "weights")).out


@pytest.mark.thorough
@pytest.mark.usefixtures("episodes")
def test_episodes_with_rewards_of_turns_and_failures(run: Callable[..., Path], lightrl: Callable[..., Any]) -> None:
    folder = run(GROUPS | {"init_args": {**GROUPS["init_args"], "advantage": "TurnNormalized"}})
    rows = [json.loads(line) for line in (folder / "records" / "rollout=1" / "rank=0.jsonl").read_text().splitlines()]
    assert {row["finish_reason"] for row in rows} >= {"stop", "failed"}
    assert {"user", "assistant"} == {message["role"] for row in rows for message in row["messages"]}
    for words in ((), ("--no_weights",), ("--rollout", "1")):
        answer = lightrl("replay", str(folder), *words)
        assert answer.status == 0, answer.out + answer.err
        assert "Found again" in answer.out


@pytest.mark.thorough
@pytest.mark.rare
def test_two_ranks_in_one_process_and_in_two(
    write: Callable[..., Path], config: dict[str, Any], lightrl: Callable[..., Any], tmp_path: Path
) -> None:
    """Minibatches of the ranks are put together: in one process up to rounding, in two to the bit."""
    config["rollouts"] = 1
    sampler = {"class_path": "GroupSampler", "init_args": {"group_size": 2}}
    algorithm = {"class_path": "PPO", "init_args": {"sampler": sampler, "minibatches": 2, "minibatch_of": "rows", "epochs": 2}}
    config["model"] |= {"algorithm": algorithm, "rewards": {"small": REWARD}, "prompts_per_rollout": 8}
    config["trainer"] |= {"callbacks": [RECORDS], "enable_checkpointing": False, "devices": 2, "strategy": "ddp"}
    write("two.yaml", config)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    environment.pop("LOCAL_RANK", None)

    def alone(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "lightrl", *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    alone("fit", "--config", "two.yaml")
    folder = "runs/two/version_0"
    assert "the same, to the bit" in alone("replay", folder, "--trainer.devices", "2")
    one = lightrl("replay", folder, "--algorithm", "PPO")
    assert one.status == 0, one.out + one.err
    assert "the same up to 1e-06, since one process replays what several have learnt" in one.out
    assert "16 completions of 8 prompts" in one.out
