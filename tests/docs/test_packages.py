"""Each page says which packages it uses beside the core, and the README installs what it goes on to use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import config_file
from lightrl.registry.known_packages import known_packages

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
STATED = re.compile(r"^This page also needs (.*)\.$", re.MULTILINE)


def used(page: str) -> list[str]:
    """The packages whose classes stand in the code and commands of a page, and those that its configs need."""
    code = [*re.findall(r"```(?:bash|yaml|python|py)(?: title=\S+)?\n(.*?)```", page, re.DOTALL), *re.findall(r"<!-- \$ (.*?) -->", page)]
    words = set(re.findall(r"\w+", "\n".join(code)))
    configs = set(re.findall(r"(?:--config |configs copy )(\w+)", "\n".join(code)))
    named = [package for package, known in known_packages().items() if words & set(known["classes"])]
    typed = set(re.findall(r"lightrl ([a-z]+(?: [a-z]+)?)", "\n".join(code)))
    typed |= {verb.split()[0] for verb in typed}
    named += [package for package, known in known_packages().items() if typed & set(known["commands"])]
    brought = {name for known in known_packages().values() for name in known["configs"]}
    for config in configs & brought:
        stated = re.search(r"^# Needs: (.*)\.$", config_file(config).read_text(), re.MULTILINE)
        named += stated[1].split(", ") if stated else []
    return sorted(set(named))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_which_packages_it_uses(page: Path) -> None:
    text = page.read_text()
    wanted = ", ".join(f"`{package}`" for package in used(text))
    assert STATED.findall(text) == ([wanted] if wanted else []), f"This page also needs {wanted}."


def test_the_readme_installs_what_it_goes_on_to_use() -> None:
    readme = (ROOT / "README.md").read_text()
    installed = re.findall(r"plugins/(lightrl-[\w-]+)", re.search(r"^(?:\$ )?pip install .*$", readme, re.MULTILINE)[0])
    assert sorted(installed) == used(readme)
