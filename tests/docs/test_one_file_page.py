"""The page on a class in one file: its files, its commands, and the place of every kind, each tried with the class of its template."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from lightrl.cli import main
from lightrl.config import read_words, resolve
from lightrl.import_path import imported
from lightrl.kinds import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "one_file.md").read_text()
FILES = dict(re.findall(r'```(?:python|yaml) title="([^"]+)"\n(.*?)```', PAGE, re.DOTALL))
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
ROWS = dict(re.findall(r"^\| ([^|]+) \| `.* \| `(.+)` \|$", PAGE, re.MULTILINE))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the files of the page."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def words(command: str) -> list[str]:
    return [word.strip("'") for word in re.findall(r"'[^']*'|\S+", command)][1:]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_the_files_and_commands_work_as_written(folder: Path) -> None:
    assert set(FILES) == {"my_file.py", "my_run.yaml", "train.py"}
    for command in COMMANDS:
        assert main(words(command)) == 0, command
    runpy.run_path(str(folder / "train.py"))


def test_the_table_has_every_kind_that_a_config_names() -> None:
    assert list(ROWS) == [title for title, kind in KINDS.items() if kind.places]


@pytest.mark.parametrize("title", ROWS)
def test_every_kind_is_named_by_its_import_path(title: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = KINDS[title]
    module = f"one_{kind.slug.replace('-', '_')}"
    assert main(["plugins", "new", f"one-{kind.slug}", "--kind", kind.slug, "--class", "Mine", "--out", str(folder / "package")]) == 0
    written = folder / "package" / module
    (folder / f"{module}.py").write_text((written / "__init__.py").read_text())
    config = folder / "mine.yaml"
    config.write_text(re.sub(r"(?<![\w.])Mine\b", f"{module}.Mine", (written / "configs" / f"{module}.yaml").read_text()))
    assert f" {module}.Mine" in config.read_text()
    in_yaml = resolve("fit", read_words(["--config", str(config)]))
    option = ROWS[title].replace("my_file", module)
    typed = resolve("fit", read_words(["--config", str(config), *option.split(" ")]))
    for resolved in (in_yaml, typed):
        named = {"model": resolved.model.as_config(), "data": resolved.data.as_config(), "trainer": resolved.trainer_words}
        assert f"{module}.Mine" in str(named)
    assert issubclass(imported(f"{module}.Mine"), kind.base_class)
    assert sys.modules[module].__file__ == str(folder / f"{module}.py")
