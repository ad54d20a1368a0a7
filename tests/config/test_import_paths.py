"""A config names code by import paths alone: they are listed without being imported, and printed before they are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightrl.cli import main
from lightrl.config.read.import_paths import import_paths, search_working_folder
from lightrl.config.read.settings import read_words
from lightrl.import_path import ImportPathError, imported

CODE = """
import sys
sys.stderr.write("EXECUTED\\n")

def thing(*args, **kwargs):
    return 1.0

class Thing:
    def __init__(self, **values):
        self.values = values.copy()
"""
LAMBDA = {"class_path": "lightning.pytorch.callbacks.LambdaCallback", "init_args": {"on_fit_start": "named_code.thing"}}
TOOLS = {"class_path": "ToolEnvironment", "init_args": {"tools": ["named_code.thing"]}}

PLACES: dict[str, Any] = {
    "model.algorithm": "named_code.Thing",
    "model.algorithm.init_args.clip": {"class_path": "named_code.Thing"},
    "model.rewards": {"own": "named_code.thing"},
    "model.rewards.correct": {"class_path": "Function", "init_args": {"path": "named_code.thing"}},
    "model.environment": TOOLS,
    "model.optimizer": {"class_path": "named_code.Thing", "init_args": {"lr": 0.1}},
    "model.engine": {"class_path": "named_code.Thing"},
    "model.class_path": "named_code.Thing",
    "data.class_path": "named_code.Thing",
    "data.train": {"class_path": "named_code.Thing", "init_args": {"x": {"class_path": "named_code.thing"}}},
    "trainer.callbacks": ["named_code.Thing"],
    "trainer.callbacks#": [LAMBDA],
    "trainer.logger": {"class_path": "named_code.Thing"},
    "trainer.strategy": {"class_path": "named_code.Thing"},
}


@pytest.fixture
def named(write: Callable[..., Path], config: dict[str, Any]) -> Callable[[str], None]:
    """Writes a config with a path of our own in it, which says on stderr when it is imported."""
    write("named_code.py", CODE)

    def named(place: str) -> None:
        *parents, last = place.rstrip("#").split(".")
        node = config
        for name in parents:
            node = node.setdefault(name, {})
        node[last] = PLACES[place]
        sys.modules.pop("named_code", None)
        write("named.yaml", config)

    return named


@pytest.mark.parametrize("place", PLACES)
def test_a_path_is_listed_and_not_imported(lightrl: Callable[..., Any], named: Callable[[str], None], place: str) -> None:
    named(place)
    answer = lightrl("check", "--config", "named.yaml", "--no-import")
    assert answer.status == 0, answer.err
    assert answer.out.startswith("named_code.")
    assert f"({place.rstrip('#').replace('.init_args', '')[:9]}" in answer.out.replace(".init_args", "")
    assert "named_code" not in sys.modules
    assert "EXECUTED" not in answer.err


@pytest.mark.parametrize("place", PLACES)
def test_a_path_is_printed_before_it_is_imported(lightrl: Callable[..., Any], named: Callable[[str], None], place: str) -> None:
    named(place)
    err = lightrl("check", "--config", "named.yaml").err
    assert "import path: named_code." in err
    before, executed, _ = err.partition("EXECUTED")
    assert executed
    assert "import path: named_code." in before


@pytest.mark.parametrize("words", [["--model.rewards.own", "named_code.thing"], ["--model.algorithm", "{class_path: named_code.Thing}"]])
def test_paths_of_the_command_line_are_listed(lightrl: Callable[..., Any], named: Callable[[str], None], words: list[str]) -> None:
    named("trainer.logger")
    answer = lightrl("check", "--config", "run.yaml", *words, "--no-import")
    assert answer.out.startswith("named_code.")
    assert "command line" in answer.out
    assert "named_code" not in sys.modules


def test_a_resolved_config_of_registered_classes_names_no_code(lightrl: Callable[..., Any], write: Callable[..., Path]) -> None:
    write("resolved.yaml", lightrl("fit", "--config", "run.yaml", "--print_config").out)
    assert lightrl("check", "--config", "resolved.yaml", "--no-import").out.startswith("0 import paths: no code beside")
    assert "import path: " not in lightrl("fit", "--config", "resolved.yaml", "--print_config").err


def test_other_texts_with_dots_are_no_paths(lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any]) -> None:
    Path("data").mkdir()
    config["data"]["train"] = {"class_path": "JsonLines", "init_args": {"path": "data.jsonl"}}
    config["trainer"]["default_root_dir"] = "no_module_has_this_name.v1"
    write("dots.yaml", config)
    assert lightrl("check", "--config", "dots.yaml", "--no-import").out.startswith("0 import paths")


def test_a_registered_class_of_another_kind_is_refused_by_its_kind(lightrl: Callable[..., Any]) -> None:
    for name in ("ExactMatch", "lightrl.parts.function.ExactMatch"):
        answer = lightrl("check", "--config", "run.yaml", "--model.algorithm.clip", name)
        assert answer.status == 2
        assert "reward" in answer.err
        assert "import path: " not in answer.err


def test_yaml_makes_no_objects(write: Callable[..., Path], tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    for tag in ("apply:os.system", "new:os.system", "object/apply:os.system"):
        write("evil.yaml", f"model: !!python/{tag} ['touch {mark}']\n")
        assert main(["check", "--config", "evil.yaml"]) == 2
    assert not mark.exists()


def test_the_working_folder_is_searched_last_and_only_for_what_is_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = list(sys.path)
    for name in ("only_here.py", "json.py", "yaml.py"):
        (tmp_path / name).write_text("raise AssertionError('nobody may execute this')\n")
    (tmp_path / "a_folder").mkdir()
    for path in ("json.loads", "yaml.safe_load", "a_folder.x", "not_there.x", "only_here"):
        search_working_folder(read_words(["--model.rewards.mine", path]))
        assert sys.path == before, path
    words = ["--model.rewards.mine", "only_here.score"]
    assert [found.path for found in import_paths(read_words(words))] == ["only_here.score"]
    search_working_folder(read_words(words))
    assert sys.path == [*before, str(tmp_path)]


HIDDEN = (
    "{} ", " {}", "{}\n", "{}\t", "{}-1", "{}()", "{}[0]", "{}.1", "{}:x", "{}\u200b", "{}\u00a0", "{}\\", "{},", "{};", "./{}", "{}.py ",
    "'{}'", '"{}"', "{}#x", "..{}", "{}..", "*{}", "!{}", "{}/x", "{}=1", "{}|x", "named_code .thing", "named_code. thing",
)  # fmt: skip
SLOTS: dict[str, Any] = {
    "model.algorithm": None,
    "model.rewards.own": None,
    "model.rewards.correct": {"class_path": "Function", "init_args": {"path": None}},
    "model.environment": {"class_path": "ToolEnvironment", "init_args": {"tools": [None]}},
    "model.optimizer": {"class_path": None, "init_args": {"lr": 0.1}},
    "model.class_path": None,
    "data.class_path": None,
    "data.train": {"class_path": None},
    "trainer.callbacks": [None],
    "trainer.logger": {"class_path": None},
}


def placed(value: Any, text: str) -> Any:
    """The value with the text where it has None."""
    if isinstance(value, dict):
        return {name: placed(inner, text) for name, inner in value.items()}
    return [placed(inner, text) for inner in value] if isinstance(value, list) else text if value is None else value


@pytest.mark.parametrize("slot", SLOTS)
def test_h1_what_is_executed_was_listed(lightrl: Callable[..., Any], write: Callable[..., Path], slot: str) -> None:
    write("named_code.py", CODE)
    # all of them are tried at one slot or another, and each at `imported`
    for form in HIDDEN[list(SLOTS).index(slot) :: len(SLOTS)]:
        sys.modules.pop("named_code", None)
        words = ["check", "--config", "run.yaml", "--config", "more.yaml"]
        tree = placed(SLOTS[slot], form.format("named_code.thing"))
        for name in reversed(slot.split(".")):
            tree = {name: tree}
        write("more.yaml", tree)
        listed = lightrl(*words, "--no-import").out
        answer = lightrl(*words)
        assert "EXECUTED" not in answer.err or "named_code.thing" in listed, f"{form!r}: {answer.err}"
        assert "named_code" not in sys.modules or "import path: named_code." in answer.err, form


def test_h1_no_text_with_more_than_names_and_dots_is_imported(write: Callable[..., Path]) -> None:
    write("named_code.py", CODE)
    for form in HIDDEN:
        with pytest.raises(ImportPathError):
            imported(form.format("named_code.thing"))
    assert "named_code" not in sys.modules
    assert imported("named_code.thing")() == 1.0


def test_h1_a_text_of_yaml_hides_no_path(lightrl: Callable[..., Any], write: Callable[..., Path]) -> None:
    write("named_code.py", CODE)
    twice = '{class_path: named_code.Thing, "class_path": "named_code\\x2eThing"}'
    for text in (twice, "[named_code.Thing]", "&a [{class_path: named_code.Thing}, *a]"):
        write("more.yaml", {"trainer": {"callbacks": text}})
        answer = lightrl("check", "--config", "run.yaml", "--config", "more.yaml", "--no-import")
        assert "named_code.Thing (trainer.callbacks, more.yaml)" in answer.out, text


def test_h1_no_other_file_is_read_in_place_of_a_class(lightrl: Callable[..., Any], write: Callable[..., Path]) -> None:
    write("named_code.py", CODE)
    write("other.yaml", {"class_path": "named_code.Thing"})
    for key in ("logger", "callbacks", "strategy", "profiler", "plugins"):
        answer = lightrl("check", "--config", "run.yaml", f"--trainer.{key}", "other.yaml")
        assert answer.status == 2, key
        assert "named_code" not in sys.modules, key
        assert "EXECUTED" not in answer.err, key
