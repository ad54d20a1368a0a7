"""Answers of listings are kept, and none that may have become wrong is given."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lightrl.cli.kept_answers import KEPT, answer, is_listing
from lightrl.registry.classes import registry
from lightrl.registry.loader import PluginRecord

NAMED = "import sys; from lightrl.cli import main; status = main(); sys.stderr.write(' '.join(sys.modules)); sys.exit(status)"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lightrl" / "listings"


class Asked:
    """Prints how often it was asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, status: int = 0) -> int:
        self.times += 1
        sys.stdout.write(f"{self.times}\n")
        sys.stderr.write("heard\n")
        return status


def fresh(*words: str) -> tuple[str, set[str]]:
    done = subprocess.run([sys.executable, "-c", NAMED, *words], capture_output=True, text=True, check=True)
    return done.stdout, set(done.stderr.split())


@pytest.mark.parametrize("words", [["algorithms", "--compare"], ["explain", "DAPO"]])
def test_a_listing_that_was_asked_before_imports_no_torch(words: list[str]) -> None:
    first, imported = fresh(*words)
    again, modules = fresh(*words)
    assert "torch" in imported
    assert first == again
    assert "DAPO" in again
    assert not modules & {"torch", "lightning", "rich", "pluggy"}


def test_configs_import_no_torch_even_at_first() -> None:
    out, modules = fresh("configs", "--json")
    assert "vapo_sort" in out
    assert not modules & {"torch", "lightning", "transformers"}


def test_an_answer_is_kept_with_all_that_was_printed(capsys: pytest.CaptureFixture[str]) -> None:
    asked = Asked()
    assert [answer(["explain", name], asked) for name in ("A", "A", "B")] == [0, 0, 0]
    assert capsys.readouterr() == ("1\n1\n2\n", "heard\n" * 3)


def test_a_changed_package_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, module = Asked(), tmp_path / "kept_plugin" / "__init__.py"
    module.parent.mkdir()
    module.write_text("")
    place = tmp_path / "kept_plugin-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Name: kept-plugin\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text("[lightrl.v1]\nkept = kept_plugin\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    answer(["algorithms"], asked)
    answer(["algorithms"], asked)
    assert asked.times == 1
    module.write_text("raise ImportError")
    answer(["algorithms"], asked)
    assert asked.times == 2
    assert "kept_plugin" not in sys.modules
    place.rename(tmp_path / "kept_plugin-1.1.dist-info")
    answer(["algorithms"], asked)
    assert asked.times == 3
    monkeypatch.setenv("COLUMNS", "200")
    answer(["algorithms"], asked)
    assert asked.times == 4


def test_an_answer_that_cannot_be_read_or_written_is_made_again(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    answer(["algorithms"], asked)
    next(cache.iterdir()).write_text("{")
    answer(["algorithms"], asked)
    assert asked.times == 2
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [answer(["algorithms"], asked) for _ in range(2)] == [0, 0]
    assert asked.times == 4


def test_nothing_is_kept_of_a_refusal_or_beside_a_broken_plugin(cache: Path) -> None:
    asked, broken = Asked(), PluginRecord("broken", "broken-plugin", "1.0", error="ImportError: no")
    assert answer(["algorithms"], lambda: asked(2)) == 2
    registry().records.append(broken)
    try:
        answer(["algorithms"], asked)
    finally:
        registry().records.remove(broken)
    assert not cache.exists()


def test_old_answers_are_removed(cache: Path) -> None:
    cache.mkdir(parents=True)
    for number in range(KEPT + 5):
        (cache / f"{number}.json").write_text("{}")
        os.utime(cache / f"{number}.json", (number, number))
    answer(["algorithms"], Asked())
    assert len(list(cache.iterdir())) == KEPT
    assert not (cache / "0.json").exists()


@pytest.mark.parametrize(
    "words", ["explain my.Part", "explain ./part.py", "plugins check", "fit", "diff a b", "plugins show x", "explain", "algorithms"]
)
def test_only_what_depends_on_the_installation_alone_is_a_listing(words: str) -> None:
    assert is_listing(words.split()) == (words in ("explain", "algorithms"))
