"""Settings and fixtures of the tests of the core and of the plugins: the command line in an empty folder, packages without a download."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

# its log handler keeps the stream that it finds when it is imported, and that of a test is closed after it
import lightning.pytorch  # noqa: F401
import pytest
import torch
import yaml
from hypothesis import settings

from lightrl.cli import main
from lightrl.environments.episode_host import EpisodeHost
from lightrl.hookspecs import GROUP
from lightrl.registry.classes import registry
from lightrl.registry.loader import load_plugin

# a pause of the garbage collector in the middle of an example is no fault of the code that is tried
settings.register_profile("search", deadline=None)
# the same examples in every run: a test fails at the change that breaks it; `pytest --hypothesis-profile=search` tries others
settings.register_profile("lightrl", settings.get_profile("search"), derandomize=True)
settings.load_profile("lightrl")

CONFIG: dict[str, Any] = {
    "rollouts": 2,
    "trainer": {"accelerator": "cpu", "devices": 1, "enable_progress_bar": False, "enable_model_summary": False},
    "model": {
        "policy": {"class_path": "TinyPolicy", "init_args": {"hidden": 16, "layers": 1}},
        "algorithm": {
            "class_path": "GRPO",
            "init_args": {
                "sampler": {"class_path": "GroupSampler", "init_args": {"group_size": 4}},
                "clip": {"class_path": "SymmetricClip", "init_args": {"epsilon": 0.1}},
            },
        },
        "rewards": {"correct": "ExactMatch"},
        "engine": {"max_new_tokens": 8},
        "prompts_per_rollout": 4,
    },
    "data": {"train": {"class_path": "DigitSorting", "init_args": {"examples": 100}}, "validation_size": 8},
}

BESIDE = re.compile(r"import path: |.* \.\.\.$|[a-z ,]+: \d+ s$")
"""Lines that belong to no answer."""


@dataclass
class Answer:
    """The status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def config(self) -> dict[str, Any]:
        """The config that `--print_config` printed."""
        return yaml.safe_load(self.out)

    @property
    def lines(self) -> list[str]:
        """Lines on stderr, but for those that say what is imported, or on a busy machine what is waited for."""
        return [line for line in self.err.strip().splitlines() if not BESIDE.match(line)]

    def at(self, key: str) -> Any:
        """The value at a key of the printed config, class_path and init_args passed over."""
        value: Any = self.config
        for name in key.split("."):
            value = value["init_args"][name] if isinstance(value, dict) and name not in value and "init_args" in value else value[name]
        return value


@pytest.fixture(scope="session")
def copy_sources() -> Callable[..., None]:
    """Copies a project without what tools and runs have left in it."""
    everywhere = shutil.ignore_patterns(".*", "dist", "runs", "*.egg-info", "__pycache__", "venv", "lightning_logs")

    def copy_sources(source: Path, to: Path, *further: str, symlinks: bool = True) -> None:
        def left_out(folder: str, names: list[str]) -> set[str]:
            # setuptools builds beside a pyproject.toml; a package of ours is called build too
            built = {"build"} if "pyproject.toml" in names else set()
            return {*everywhere(folder, names), *built, *further}

        shutil.copytree(source, to, symlinks=symlinks, ignore=left_out)

    return copy_sources


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Write YAML files into an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    write("run.yaml", CONFIG)
    yield write
    # a later test has files of its own under the same names
    own = [name for name, module in sys.modules.items() if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path))]
    for name in own:
        del sys.modules[name]


@pytest.fixture
def config() -> dict[str, Any]:
    """A copy of the small config, to be changed."""
    return copy.deepcopy(CONFIG)


@pytest.fixture
def lightrl(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Answer]]:
    """Call the command line with these words."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def lightrl(*words: str) -> Answer:
        capsys.readouterr()
        status = main(words)
        captured = capsys.readouterr()
        return Answer(status, captured.out, captured.err)

    yield lightrl
    torch.set_num_threads(threads)


@pytest.fixture
def resolved(lightrl: Callable[..., Answer]) -> Callable[..., Answer]:
    """The resolved config of `run.yaml` with these overrides."""

    def resolved(*words: str) -> Answer:
        answer = lightrl("fit", "--config", "run.yaml", *words, "--print_config")
        assert answer.status == 0, answer.err
        return answer

    return resolved


ALGORITHMS = """
from typing import Any
from lightrl import DecoupledClip, GroupRelative, hookimpl

class Narrow(GroupRelative):
    clip = DecoupledClip(low=0.05, high=0.06)

class Wide(GroupRelative):
    clip = DecoupledClip(low=0.5, high=0.6)
    epochs = 2

@hookimpl
def lightrl_algorithms() -> list[type[Any]]:
    return [Narrow, Wide]
"""
"""A plugin with two algorithms that differ in their clips and epochs."""


@pytest.fixture
def throwaway(write: Callable[..., Path]) -> Iterator[None]:
    """The plugin `ALGORITHMS`, installed for the length of a test."""
    write("throwaway_algorithms.py", ALGORITHMS)
    record = load_plugin(EntryPoint("throwaway", "throwaway_algorithms", GROUP))
    assert record.error is None
    registry().records.append(record)
    yield
    registry().records.remove(record)
    del sys.modules["throwaway_algorithms"]


@dataclass
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def pip(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--python", str(self.python), *words, "--no-deps", "--no-index", "--quiet"],
            capture_output=True, text=True, check=False, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def run(self, *words: str, cwd: Path | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run its Python with these words, away from the checkout."""
        settings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **settings}
        settings.pop("PYTHONPATH", None)
        place = self.folder if cwd is None else cwd
        return subprocess.run([self.python, *words], capture_output=True, text=True, check=False, env=settings, cwd=place)

    def lightrl(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "lightrl", *words, **settings)


def environment(folder: Path, editable: bool) -> Environment:
    """A new one; `editable` says whether the editable packages of this environment, lightrl among them, are seen as well."""
    venv.create(folder, with_pip=False, symlinks=True)
    made = Environment(folder)
    parent = sysconfig.get_paths()["purelib"]
    site = Path(sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})["purelib"])
    # what .pth files of the parent say, editable packages above all, is followed only by addsitedir
    (site / "parent.pth").write_text(f"import site; site.addsitedir({parent!r})\n" if editable else f"{parent}\n")
    return made


@dataclass
class Site:
    """A folder with packages as an installation leaves them, which processes of this environment see."""

    folder: Path

    def add(self, project: Path) -> None:
        """Put in the modules of a project, and what says which entry points it has."""
        declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
        name, version = declared["name"], declared.get("version", "0")
        for module in project.iterdir():
            if module.suffix == ".py":
                shutil.copy(module, self.folder)
            elif (module / "__init__.py").is_file():
                shutil.copytree(module, self.folder / module.name)
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        groups = declared["entry-points"].items()
        lines = [f"[{group}]\n" + "".join(f"{entry} = {value}\n" for entry, value in entries.items()) for group, entries in groups]
        (info / "entry_points.txt").write_text("\n".join(lines))

    def run(self, *words: str, cwd: Path | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run Python with these words, away from the checkout."""
        settings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(self.folder), **settings}
        place = self.folder if cwd is None else cwd
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, env=settings, cwd=place)

    def lightrl(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "lightrl", *words, **settings)

    def in_turn(self, *commands: list[str], **settings: str) -> list[list[Any]]:
        """Status, output and errors of several commands in one process, which loads the plugins once."""
        done = self.run("-c", IN_TURN, json.dumps(commands), COLUMNS="200", **settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.partition("ANSWERS")[2])


IN_TURN = """
import contextlib, io, json, sys
from lightrl.cli import main
from lightrl.environments.episode_host import EpisodeHost
answers = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    answers.append([status, out.getvalue(), err.getvalue()])
print("ANSWERS" + json.dumps(answers))
"""


@pytest.fixture(scope="session")
def new_site() -> Callable[[Path, list[Path]], Site]:
    """Makes a folder in which these projects are found."""

    def new_site(folder: Path, projects: list[Path]) -> Site:
        folder.mkdir()
        site = Site(folder)
        for project in projects:
            site.add(project)
        return site

    return new_site


@pytest.fixture(scope="session")
def new_environment() -> Callable[[Path, bool], Environment]:
    """Makes a virtual environment in a folder."""
    return environment


GAME = """
from lightrl.parts.environment import Environment, Reply

class Digits(Environment):
    \"\"\"Two turns; the second may fail.\"\"\"

    runs = "inline"
    gives_rewards = True

    def begin(self, prompt, seed):
        self.turn = 0
        return f"{prompt.text or seed % 10}?"

    def reply(self, completion):
        self.turn += 1
        if self.turn == 2 and completion[-1:] in tuple("789"):
            raise ArithmeticError("too high")
        return Reply(">", float(completion[-1:] in tuple("01234")), self.turn == 2)
"""


@pytest.fixture
def episodes(write: Callable[..., Path], config: dict[str, Any]) -> dict[str, Any]:
    """The config of a run that plays the game, which its environment rewards."""
    write("two_turns.py", GAME)
    config["model"]["environment"] = {"class_path": "two_turns.Digits", "init_args": {"max_error_rate": 1.0}}
    config["model"]["engine"] = {"max_new_tokens": 30, "stop": list("0123456789")}
    config["data"] = {"train": {"class_path": "EpisodeSeeds", "init_args": {"size": 20}}, "validation_size": 4}
    return config


@pytest.fixture
def hosted() -> Iterator[Callable[..., EpisodeHost]]:
    """Hosts whose processes end with the test."""
    made: list[EpisodeHost] = []

    def make(environment: Any) -> EpisodeHost:
        made.append(EpisodeHost(environment))
        return made[-1]

    yield make
    for host in made:
        host.close()
