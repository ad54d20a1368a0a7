"""The commands of the README and of the first page can be typed."""

from __future__ import annotations

import re
import shlex
import string
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from benchmarks import config_file
from lightrl import PolicyOptimization
from lightrl.algorithms.algorithm import Algorithm
from lightrl.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
TEXT = README + (ROOT / "docs" / "index.md").read_text()


def blocks(language: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    every = [shlex.split(line, comments=True) for line in lines if line and "<" not in line]
    return [words for i, words in enumerate(every) if words not in every[:i]]


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Path]:
    """A folder with what the README's user has: a data file, a reward of their own, and a policy."""
    from lightrl import TinyPolicy

    (tmp_path / "my_rewards.py").write_text(next(b for b in blocks("python") if "my_rewards.py" in b))
    (tmp_path / "train.jsonl").write_text("".join(f'{{"question": "{i}+{i}=", "answer": "{2 * i}"}}\n' for i in range(300)))
    policy = TinyPolicy(hidden=16, layers=1, heads=2, alphabet=string.printable, max_positions=2048).build()
    policy.tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}|{% endfor %}"
    policy.save(tmp_path / "policy")
    yield tmp_path
    sys.modules.pop("my_rewards", None)


FITS = [words for words in commands() if words[:2] in (["lightrl", "fit"], ["lightrl", "check"])]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("words", FITS, ids=[" ".join(words[4:]) or words[1] for words in FITS])
def test_every_fit_command_resolves(
    words: list[str], user: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = words[words.index("--config") + 1]
    file = config_file(config.removesuffix(".yaml"))
    theirs = {"gsm8k_train.jsonl": user / "train.jsonl"} | ({config: file} if config.endswith(".yaml") else {})
    given = [str(user / "policy") if word.startswith("Qwen/") else str(theirs.get(word, word)) for word in words[2:]]
    here = [] if "TinyPolicy" in file.read_text() else ["--model.policy.path", str(user / "policy")]
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
    assert list(dict.fromkeys(targets))[:2] == ["demo", "test"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_it_is_a_door_and_no_manual() -> None:
    assert len(README.split()) <= 900


@pytest.mark.filterwarnings("ignore")
def test_its_lines_of_python_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (script,) = (block for block in blocks("python", README) if "Trainer(" in block)
    namespace: dict[str, object] = {}
    fewer = script.replace("max_epochs=100", "max_epochs=2, enable_progress_bar=False").replace('accelerator="auto"', 'accelerator="cpu"')
    exec(compile(fewer, "README.md", "exec", dont_inherit=True), namespace)
    assert namespace["module"].numbers["rewards/sorted/mean"] >= 0  # type: ignore[attr-defined]


def test_the_one_file_it_names_has_as_many_lines_as_it_says() -> None:
    lines = len((ROOT / "examples" / "grpo_in_one_file.py").read_text().splitlines())
    assert f"GRPO in {lines} lines" in README


def test_its_numbers_are_those_of_the_page_on_speed() -> None:
    speed = (ROOT / "docs" / "speed.md").read_text()
    table = {case: float(times) for case, times in re.findall(r"^\| (\w+) \|.*?\| ([\d.]+) \([\d.]+ to", speed, re.MULTILINE)}
    shown = re.findall(r"\| ([\d.]+) \| `make bench (?:CASE=real )?ARGS=\"--only (\w+)\"`", README)
    assert len(shown) == 4
    assert [float(times) for times, _ in shown] == [round(table[case], 1) for _, case in shown]


def test_every_algorithm_it_names_is_in_the_package_beside_it() -> None:
    for row in re.findall(r"^\|.*\[(lightrl-[\w-]+)\]\(plugins/(lightrl-[\w-]+)/README.md\) \|$", README, re.MULTILINE):
        assert row[0] == row[1]
        assert (ROOT / "plugins" / row[1] / "README.md").is_file()


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
    for line in (
        "rollout = self.rollout_phase()",
        "training_batch = self.advantage_phase(rollout)",
        "self.optimization_phase(training_batch)",
    ):
        assert line in source
        assert line in README
