"""The commands of the README can be typed."""

from __future__ import annotations

import re
import shlex
import string
import sys
from pathlib import Path

import pytest
import yaml

from lightrl import PolicyOptimization
from lightrl.algorithms.algorithm import Algorithm
from lightrl.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A folder with what the README's user has: a data file, a reward of their own, and a policy."""
    from lightrl import TinyPolicy

    (tmp_path / "my_rewards.py").write_text(next(b for b in blocks("python") if "my_rewards.py" in b))
    (tmp_path / "train.jsonl").write_text("".join(f'{{"question": "{i}+{i}=", "answer": "{2 * i}"}}\n' for i in range(300)))
    policy = TinyPolicy(hidden=16, layers=1, heads=2, alphabet=string.printable, max_positions=2048).build()
    policy.tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}|{% endfor %}"
    policy.save(tmp_path / "policy")
    return tmp_path


FITS = [words for words in commands() if words[:2] in (["lightrl", "fit"], ["lightrl", "check"]) and "my_idea" not in words]
"""Those of a package that the reader makes are run in plugins/lightrl-workshop/tests/test_new.py."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("words", FITS, ids=[" ".join(words[4:]) or words[1] for words in FITS])
def test_every_fit_command_resolves(
    words: list[str], user: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = words[words.index("--config") + 1]
    file = ROOT / config if config.startswith("configs/") else ROOT / "configs" / f"{config}.yaml"
    theirs = {"gsm8k_train.jsonl": user / "train.jsonl"} | ({config: file} if config.startswith("configs/") else {})
    given = [str(user / "policy") if word.startswith("Qwen/") else str(theirs.get(word, word)) for word in words[2:]]
    here = ["--model.policy.path", str(user / "policy")]
    source = yaml.safe_load(file.read_text())["data"]["train"]["class_path"]
    if source == "JsonLines":
        here += ["--data.train.path", str(user / "train.jsonl")]
    if source == "DigitSorting":
        here += ["--data.train.examples", "2000"]
    monkeypatch.chdir(user)
    monkeypatch.syspath_prepend(str(user))
    monkeypatch.delitem(sys.modules, "my_rewards", raising=False)
    status = main(["check", *given, *here])
    said = "".join(capfd.readouterr())
    assert status == 0, said
    assert "The config can be run" in said


@pytest.mark.filterwarnings("ignore")
def test_the_config_it_shows_resolves(user: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    config = yaml.safe_load(blocks("yaml")[0])
    config["model"]["policy"]["init_args"]["path"] = str(user / "policy")
    (user / "config.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.chdir(user)
    monkeypatch.syspath_prepend(str(user))
    monkeypatch.delitem(sys.modules, "my_rewards", raising=False)
    status = main(["check", "--config", "config.yaml"])
    assert status == 0, "".join(capfd.readouterr())


def test_generate_and_plugins_are_verbs(user: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--policy", str(user / "policy"), "--prompt", "493027=", "--max_new_tokens", "4"]) == 0
    capfd.readouterr()
    assert main(["plugins", "list"]) == 0
    assert "grpo" in capfd.readouterr().out


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = [words[1] for words in commands() if words[0] == "make"]
    assert targets == ["demo", "test"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_the_algorithm_it_shows_is_one() -> None:
    namespace: dict[str, object] = {}
    exec(next(b for b in blocks("python") if "lightrl_algorithms" in b), namespace)
    higher = namespace["lightrl_algorithms"]()[0]  # type: ignore[operator]
    algorithm = higher()
    assert isinstance(algorithm, Algorithm)
    assert (type(algorithm.clip).__name__, algorithm.clip.high, type(algorithm.aggregation).__name__) == (
        "DecoupledClip",
        0.28,
        "TokenMean",
    )


def test_the_walk_it_shows_is_the_walk() -> None:
    import inspect

    source = inspect.getsource(PolicyOptimization.training_step)
    for line in ("rollout = self.rollout_phase()", "experience = self.reward_phase(rollout)", "self.optimization_phase(experience)"):
        assert line in source
        assert line in README
