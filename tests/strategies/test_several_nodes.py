"""The commands for several nodes in docs/scale.md, typed on two nodes that are one host."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "examples" / "slurm" / "rollout_nodes.sbatch"
LIMIT_S = 300
RUN: dict[str, Any] = {
    "seed_everything": 0,
    "rollouts": 2,
    "trainer": {
        "accelerator": "cpu",
        "enable_progress_bar": False,
        "callbacks": [{"class_path": "ModelCheckpoint", "init_args": {"save_last": True}}],
    },
    "model": {
        "policy": {"class_path": "TinyPolicy", "init_args": {"hidden": 16, "layers": 1, "heads": 2}},
        "algorithm": {"class_path": "GRPO", "init_args": {"sampler": {"class_path": "GroupSampler", "init_args": {"group_size": 4}}}},
        "rewards": {"small": {"class_path": "Function", "init_args": {"path": "lightrl_workshop.toy.small_digits", "runs": "inline"}}},
        "engine": {"class_path": "TransformersEngine", "init_args": {"max_new_tokens": 8}},
        "prompts_per_rollout": 4,
        "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.01, "eps": 0.01}},
    },
    "data": {"train": {"class_path": "Reversal", "init_args": {"examples": 20}}},
}
SMALL = {"--nproc-per-node": "1", "--trainer.devices": "1", "--trainer.strategy": "ddp", "--config": "run.yaml"}
"""Options of the page, and what they are here."""


def commands(launcher: str) -> list[str]:
    """The words of the page's command that begins with the launcher."""
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / "docs" / "scale.md").read_text(), re.DOTALL)
    [found] = [block for block in blocks if block.startswith(launcher)]
    return shlex.split(found.replace("\\\n", " "))


def here(words: list[str], port: int) -> list[str]:
    """The command in small, on this host."""
    small = SMALL | {"--rdzv-endpoint": f"localhost:{port}"}
    return [small.get(before, word) for before, word in zip(["", *words], words, strict=False)]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def run_all(folder: Path, nodes: list[tuple[list[str], dict[str, str]]]) -> None:
    """One process for each node, given its words and its variables; all must end well."""
    shared = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    running = [
        subprocess.Popen(
            words,
            cwd=folder,
            env=os.environ | shared | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        for words, own in nodes
    ]
    for process in running:
        said, _ = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, said


def slurm(node: int) -> dict[str, str]:
    """The variables that `srun` sets for the only task of one of two nodes."""
    job = {"JOB_ID": 4242, "JOB_NAME": "train", "NTASKS": 2, "NNODES": 2, "NODELIST": "localhost", "NTASKS_PER_NODE": 1, "LOCALID": 0}
    return {f"SLURM_{name}": str(value) for name, value in {**job, "PROCID": node, "NODEID": node}.items()}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """At the end of the only run in a folder."""
    [file] = folder.glob("runs/**/last.ckpt")
    loaded: dict[str, torch.Tensor] = torch.load(file, weights_only=True)["state_dict"]
    return loaded


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The weights of a run of two processes that Lightning starts."""
    folder = tmp_path_factory.mktemp("one")
    (folder / "run.yaml").write_text(yaml.safe_dump(RUN))
    words = ["lightrl", "fit", "--config", "run.yaml", "--trainer.devices", "2", "--trainer.strategy", "ddp"]
    run_all(folder, [(words, {})])
    return weights(folder)


@pytest.mark.thorough
@pytest.mark.parametrize("launcher", ["torchrun", pytest.param("srun", marks=pytest.mark.rare)])
def test_two_nodes_end_with_the_weights_of_one(one_node: dict[str, torch.Tensor], launcher: str, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(RUN))
    port = free_port()
    words = here(commands(launcher), port)
    nodes: list[tuple[list[str], dict[str, str]]] = [(words, {}), (words, {})]
    if launcher == "srun":
        job = {
            "JOB_ID": "4242",
            "JOB_NAME": "train",
            "NTASKS": "2",
            "NNODES": "2",
            "NODELIST": "localhost",
            "NTASKS_PER_NODE": "1",
            "LOCALID": "0",
        }
        numbers = [{**job, "PROCID": str(node), "NODEID": str(node)} for node in range(2)]
        nodes = [(words[1:], {"MASTER_PORT": str(port), **{f"SLURM_{name}": value for name, value in own.items()}}) for own in numbers]
    run_all(tmp_path, nodes)
    found = weights(tmp_path)
    assert found.keys() == one_node.keys()
    assert all(torch.equal(tensor, one_node[name]) for name, tensor in found.items())


@pytest.mark.thorough
def test_the_recipe_is_a_script_whose_command_is_understood(tmp_path: Path) -> None:
    assert subprocess.run(["bash", "-n", str(RECIPE)], check=False).returncode == 0
    [command] = re.findall(r"-m lightrl (fit [^\n]*(?:(?<=\\)\n[^\n]*)*)", RECIPE.read_text())
    without = {name: value for name, value in RUN["model"].items() if name != "engine"}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(RUN | {"model": without}))
    own = {"$config": "run.yaml", "[${addresses%,}]": '["http://a:8000","http://b:8000"]', "8": "1", "deepspeed_stage_2": "auto"}
    words = [own.get(word, word) for word in shlex.split(command.replace("\\\n", " "))]
    assert words[0] == "fit"
    assert {"VLLMEngine", "--model.engine.addresses", "--model.rollouts_ahead"} < set(words)
    checked = subprocess.run(
        [sys.executable, "-m", "lightrl", *words, "--print_config"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert yaml.safe_load(checked.stdout)["model"]["engine"]["init_args"]["addresses"] == ["http://a:8000", "http://b:8000"]
