"""Unknown keys are told from sources, before torch is imported: the same refusals as those of the classes, and no others."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lightrl.arguments import arguments_of
from lightrl.config.merge.resolve import resolve
from lightrl.config.read.refusals import LINES, ConfigError
from lightrl.config.read.settings import read_words
from lightrl.config.read.source_keys import class_in, class_named, refuse_unknown_keys, verb_keys
from lightrl.kinds import KINDS
from lightrl.registry.classes import registry
from lightrl.registry.installed_configs import installed_configs

REGISTERED = [cls for kind in KINDS for _, cls in registry().of_kind(kind)]
OF_TORCH = [
    cls
    for module, base in ((torch.optim, torch.optim.Optimizer), (torch.optim.lr_scheduler, torch.optim.lr_scheduler.LRScheduler))
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, base) and cls is not base and cls.__module__.startswith("torch.optim")
]


def read(cls: type[Any]) -> list[str] | None:
    source = class_in(cls.__module__, cls.__qualname__)
    return None if source is None or source.arguments is None else list(source.arguments)


def refusal(*words: str) -> str:
    """Of the sources; empty if there is none."""
    try:
        refuse_unknown_keys("fit", read_words(list(words)))
    except ConfigError as error:
        return str(error)
    return ""


def refusal_of_classes(*words: str) -> str:
    with pytest.raises(ConfigError) as refused:
        resolve("fit", read_words(list(words)))
    return str(refused.value)


@pytest.mark.parametrize("cls", REGISTERED, ids=lambda cls: cls.__name__)
def test_a_source_says_the_arguments_of_its_class_or_nothing(cls: type[Any]) -> None:
    assert read(cls) in (None, list(arguments_of(cls)))


@pytest.mark.parametrize("cls", OF_TORCH, ids=lambda cls: cls.__name__)
def test_the_source_of_an_optimizer_says_what_a_config_gives(cls: type[Any]) -> None:
    assert read(cls) in (None, list(arguments_of(cls, 1)))


def test_nearly_all_sources_can_be_read() -> None:
    assert sum(read(cls) is not None for cls in REGISTERED) >= 0.98 * len(REGISTERED)


TYPOS = [
    ("--config", "grpo", "--model.algorithm.clip.epsilonn", "3"),
    ("--config", "grpo", "--modle.seed", "3"),
    ("--config", "grpo", "--trainer.max_epoch", "3"),
    ("--config", "grpo", "--model.optimizer.lrr", "3"),
    ("--config", "grpo", "--data.train.pth", "x"),
    ("--config", "grpo", "--model.evaluation.ever", "3"),
    ("--config", "dapo", "--model.algorithm.sampler.rounds", "3", "--model.foo", "4"),
    ("--config", "grpo", "--model.engine.max_new_token", "3", "--model.algorithm.beta", "0.1"),
    ("--config", "grpo", "--model.optimizer", "SGD", "--model.optimizer.momentun", "0.1"),
    ("--config", "grpo", "--model.rewards.length", "SoftOverlong", "--model.rewards.length.maximum_length", "3"),
    ("--config", "sft_sort", "--model.batchsize", "3"),
    ("--config", "dpo_sort", "--model.objective.betta", "3"),
]


@pytest.mark.parametrize("words", TYPOS, ids=" ".join)
def test_sources_refuse_in_the_words_of_the_classes(words: tuple[str, ...]) -> None:
    told = refusal(*words)
    assert told
    assert told == refusal_of_classes(*words)


def _keys(value: Any, key: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield (*key, name)
        yield from _keys(inner, (*key, name))


@pytest.mark.parametrize("config", installed_configs(), ids=lambda config: config.name)
def test_no_installed_config_is_refused(config: Any) -> None:
    assert refusal("--config", str(config.path)) == ""


def test_nothing_slow_is_imported_for_a_typo() -> None:
    script = (
        "import sys; from lightrl.cli import main\n"
        "assert main(['fit', '--config', 'grpo', '--model.algorithm.clip.epsilonn', '3']) == 2\n"
        "assert main(['check', '--config', 'grpo', '--data.train.pth', '3']) == 2\n"
        "assert not {'torch', 'lightning', 'transformers', 'numpy', 'pydantic'} & set(sys.modules), sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "loading" not in done.stderr


OWN = """
from lightrl import GroupRelative, RowReward, SymmetricClip

class Clip(SymmetricClip):
    def __init__(self, width: float = 0.2, **others: float) -> None:
        super().__init__(**others)
        self.width = width

class Loose(SymmetricClip):
    def __init__(self, **others: float) -> None:
        super().__init__(others.pop("epsilon", 0.2))

class Later(SymmetricClip):
    if True:
        def __init__(self, later: float = 0.2) -> None:
            super().__init__(later)

def shout(completion: str) -> float:
    return 1.0
"""

CHOSEN = ("--model.algorithm", "GRPO", "--model.algorithm.clip", "DecoupledClip")


@pytest.mark.parametrize(
    "words",
    [
        ("--model.algorithm", "GRPO", "--model.algorithm.clip", "own.Clip", "--model.algorithm.clip.epsilon", "0.1"),
        ("--model.algorithm", "GRPO", "--model.algorithm.clip", "own.Loose", "--model.algorithm.clip.anything", "0.1"),
        ("--model.algorithm", "GRPO", "--model.algorithm.clip", "own.Later", "--model.algorithm.clip.later", "0.1"),
        ("--model.rewards.loud", "own.shout"),
        ("--model.rewards.length", "SoftOverlong", "--model.rewards.length.path", "own.shout"),
        ("--model.algorithm", "GRPO", "--model.algorithm.clip", "nowhere.Clip", "--model.algorithm.clip.width", "0.1"),
        ("--model.algorithm", "GRPO", "--model.algorithm.clip", "{class_path: DecoupledClip}", "--model.algorithm.clip.high", "0.3"),
        ("--model.algorithm", "GRPO", "--model.algorithm.clip", "null", "--model.algorithm.clip.width", "0.1"),
        # what two algorithms both have by default is carried over, whatever was chosen for it
        (*CHOSEN, "--model.algorithm", "DrGRPO", "--model.algorithm.clip.high", "0.3"),
        ("--model", "SupervisedFineTuning", "--model.batch_size", "4"),
    ],
    ids=" ".join,
)
def test_what_sources_do_not_say_for_sure_is_not_refused(words: tuple[str, ...], write: Callable[..., Path]) -> None:
    write("own.py", OWN)
    write("empty.yaml", {"rollouts": 3})
    assert refusal("--config", "empty.yaml", *words) == ""


NAMES = st.sampled_from(["class_path", "init_args", "model", "clip", "clip.low", "algorithm", "train", "rewards", "x", "", ".", 1, None])
NODES = st.recursive(
    st.sampled_from(["GRPO", "DAPO", "own.Clip", "torch.optim.AdamW", "a.b", "..", 3, None, True]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.thorough
@settings(max_examples=200, deadline=None)
@given(model=NODES, data=NODES, trainer=NODES)
def test_whatever_a_config_holds_is_refused_or_left_to_the_classes(model: object, data: object, trainer: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "any.yaml"
        file.write_text(yaml.safe_dump({"model": model, "data": data, "trainer": trainer}))
        assert len(refusal("--config", str(file)).splitlines()) <= LINES


def test_own_classes_are_read_as_they_are_now(write: Callable[..., Path]) -> None:
    words = ("--model.algorithm", "GRPO", "--model.algorithm.clip", "own.Clip", "--model.algorithm.clip.widht", "0.1")
    write("own.py", OWN)
    assert "Clip has no argument 'widht'. Did you mean 'width'? It takes: width, epsilon." in refusal(*words)
    write("own.py", OWN.replace("width", "widht"))
    assert refusal(*words) == ""


def test_a_class_that_is_only_in_the_working_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "only_here.py").write_text("class Clip:\n    def __init__(self, width=1): ...\n")
    words = ("--model.algorithm", "GRPO", "--model.algorithm.clip", "only_here.Clip", "--model.algorithm.clip.widht", "3")
    assert "Did you mean 'width'?" in refusal(*words)


def test_a_source_is_not_executed(write: Callable[..., Path], tmp_path: Path) -> None:
    write("own.py", "open('executed', 'w')\nclass Clip:\n    def __init__(self, width=1): ...\n")
    assert "It takes: width." in refusal(
        "--model.algorithm", "GRPO", "--model.algorithm.clip", "own.Clip", "--model.algorithm.clip.high", "3"
    )
    assert not (tmp_path / "executed").exists()


def test_the_verbs_have_the_keys_of_lightning() -> None:
    assert {"ckpt_path", "seed_everything"} < set(verb_keys("fit")) < {*verb_keys("predict"), "weights_only"}


def test_two_classes_of_one_name_are_none() -> None:
    assert class_named("Nobody") is None
    assert class_named("torch.optim.AdamW") == class_named("AdamW")
