"""Run the suite of tests/stack against the oldest, the pinned and the newest versions of what lightrl needs, each in an own environment.

`make stack` runs all three and writes docs/versions.md; `make stack STACK=newest` runs one and writes nothing there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from packaging.requirements import Requirement
from packaging.version import Version

from benchmarks import ROOT

PAGE = ROOT / "docs" / "versions.md"
OUT = ROOT / "runs" / "stack"
PROJECTS = [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))]
TESTED_WITH = ("pytest", "hypothesis")
"""Of the extra `dev`, what the suite needs."""
COLUMNS = ("lowest", "pinned", "newest")
TOLERANCE = 1e-6
"""Of rewards that are said to be equal."""
HEAD = """# Versions

`make stack` writes this page. It installs the core and every plugin without their extras in three environments, and runs `tests/stack` in
each: *lowest* has every direct dependency at the floor that its package states, *pinned* those of `constraints.txt`, and *newest* what the
package index has, torch as pinned. `.ci/run` runs *newest*, so that a release that breaks a run is seen.

A run with a version outside of these floors is refused at its start. `lightrl/versions.py` has what differs between versions.
"""


@dataclass(frozen=True)
class Column:
    """What the suite found in one environment."""

    versions: dict[str, str]
    """By package."""
    lines: dict[str, str]
    """`passed` or `failed`, by what was tried."""
    rewards: list[float]
    """Of the rows of the last of three rollouts of GRPO."""


def floors(requirements: Iterable[str]) -> dict[str, str]:
    """The highest floor of each package that some dependencies state.

    Args:
        requirements: as in a pyproject.toml; those of lightrl on itself are passed over.

    Raises:
        ValueError: one states none.
    """
    found: dict[str, Version] = {}
    for needed in map(Requirement, requirements):
        if needed.name.startswith("lightrl-"):
            continue
        stated = [Version(one.version) for one in needed.specifier if one.operator in (">=", "~=", "==")]
        if not stated:
            raise ValueError(f"{needed} states no floor, so that nobody knows what it was tried with")
        found[needed.name] = max([*stated, found.get(needed.name, stated[0])])
    return {name: str(version) for name, version in sorted(found.items())}


def dependencies() -> list[str]:
    """All that the core and its plugins need, and what the suite needs."""
    projects = [tomllib.loads(file.read_text())["project"] for file in PROJECTS]
    needed = [text for project in projects for text in project["dependencies"]]
    return needed + [text for text in projects[0]["optional-dependencies"]["dev"] if Requirement(text).name in TESTED_WITH]


def constraints(column: str) -> str:
    """The file of constraints of a column.

    Args:
        column: lowest, pinned or newest.
    """
    pinned = (ROOT / "constraints.txt").read_text()
    if column == "lowest":
        return "".join(f"{name}=={version}\n" for name, version in floors(dependencies()).items())
    return pinned if column == "pinned" else "".join(line + "\n" for line in pinned.splitlines() if line.startswith("torch=="))


def install(column: str, python: str) -> Path:
    """The Python of a column's environment, with everything installed."""
    folder = ROOT / f".venv-stack-{column}"
    own = folder / "bin" / "python"
    if not own.is_file():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    file = OUT / f"{column}.txt"
    file.write_text(constraints(column))
    packages = [word for project in PROJECTS for word in ("-e", str(project.parent))]
    pip = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--upgrade-strategy", "eager"]
    subprocess.run([*pip, "-c", str(file), *packages, *TESTED_WITH], check=True)
    return own


def try_out(column: str, python: str) -> Column:
    """Install a column and run the suite in it."""
    own, report = install(column, python), OUT / f"{column}.xml"
    report.unlink(missing_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PATH": f"{own.parent}{os.pathsep}{os.environ['PATH']}"}
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", "tests/stack", "--tb=short", f"--junitxml={report}"]
    subprocess.run([str(own), *words], cwd=ROOT, env=environment, check=False)
    return column_of(report.read_text())


def column_of(report: str) -> Column:
    """What a report in JUnit's format says."""
    root = ElementTree.fromstring(report)
    said = {one.attrib["name"]: one.attrib["value"] for one in root.iter("property")}
    lines: dict[str, str] = {}
    for case in root.iter("testcase"):
        test, _, of = case.attrib["name"].partition("[")
        title = test.removeprefix("test_").replace("_", " ")
        bad = any(case.find(name) is not None for name in ("failure", "error", "skipped"))
        lines[f"{title}: {of.removesuffix(']')}" if of else title] = "failed" if bad else "passed"
    versions = {name.removeprefix("version "): value for name, value in said.items() if name.startswith("version ")}
    return Column(versions, lines, json.loads(said.get("rewards", "[]")))


def largest_difference(columns: Iterable[Column]) -> float:
    """Between rewards of the same row; infinite where a column has none."""
    first, *others = [column.rewards for column in columns]
    if any(len(other) != len(first) or not other for other in [first, *others]):
        return float("inf")
    return max((abs(a - b) for other in others for a, b in zip(first, other, strict=True)), default=0.0)


def table(columns: dict[str, Column]) -> str:
    """Versions and outcomes, a column for each environment."""
    packages = list(dict.fromkeys(name for column in columns.values() for name in column.versions))
    tried = list(dict.fromkeys(name for column in columns.values() for name in column.lines))
    rows = [["", *columns], ["---"] * (len(columns) + 1)]
    rows += [[name, *(column.versions.get(name, "-") for column in columns.values())] for name in packages]
    rows += [[name, *(column.lines.get(name, "-") for column in columns.values())] for name in tried]
    shown = [f"{sum(column.rewards) / len(column.rewards):.9f}" if column.rewards else "-" for column in columns.values()]
    rows.append(["mean reward of the third rollout", *shown])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The columns to run, all if none is named, and the Python that makes their environments."""
    parser = argparse.ArgumentParser(description=__doc__)
    # of no word at all, argparse would look for the whole default among the choices
    parser.add_argument("columns", nargs="*", metavar="COLUMN", help=f"of {', '.join(COLUMNS)}; all if none is named")
    parser.add_argument("--python", default=sys.executable, help="makes the environments")
    given = parser.parse_args(words)
    if unknown := set(given.columns) - set(COLUMNS):
        parser.error(f"there is no {sorted(unknown)[0]}, only {', '.join(COLUMNS)}")
    given.columns = given.columns or list(COLUMNS)
    return given


def main() -> int:
    """Run the columns, and print or write the table; 1 if something failed or rewards differ."""
    given = parsed()
    OUT.mkdir(parents=True, exist_ok=True)
    columns = {name: try_out(name, given.python) for name in given.columns}
    difference = largest_difference(columns.values())
    text = f"{table(columns)}\nRewards of a row differ by at most {difference:.1e}.\n"
    sys.stdout.write(text)
    if len(columns) == 3:
        PAGE.write_text(f"{HEAD}\n{text}")
    failed = [f"{name}: {line}" for name, column in columns.items() for line, outcome in column.lines.items() if outcome == "failed"]
    sys.stdout.write("".join(f"failed in {line}\n" for line in failed))
    return 1 if failed or difference > TOLERANCE else 0


if __name__ == "__main__":
    sys.exit(main())
