"""`lightrl algorithms`, `explain` and `diff`: generated from the algorithms, without Lightning."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lightrl.config.describe.algorithms import registered
from lightrl.config.describe.documentation import documentation
from lightrl.parts.aggregation import TokenMean
from lightrl.parts.base import Part
from lightrl.parts.clip import DecoupledClip
from lightrl.parts.kl import KLPenalty
from lightrl.registry.classes import registry
from lightrl.registry.known_packages import CORE

ALGORITHMS = [cls for _, cls in registered()]
EVERY = pytest.mark.parametrize("cls", ALGORITHMS, ids=lambda cls: cls.__name__)


def test_no_lightning_is_imported() -> None:
    commands = [["algorithms"], ["algorithms", "--compare"], ["explain", "GRPO"], ["diff", "GRPO", "DrGRPO"]]
    script = (
        "import sys; from lightrl.cli import main\n"
        f"for words in {commands}:\n"
        "    assert main(words) == 0, words\n"
        "    assert not {'lightning', 'transformers', 'datasets', 'deepspeed'} & set(sys.modules), words\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "GRPO" in done.stdout


def test_every_algorithm_is_listed_with_its_package_sentence_and_source(lightrl: Callable[..., Any]) -> None:
    listed = json.loads(lightrl("algorithms", "--json").out)
    assert [row["name"] for row in listed] == [cls.__name__ for cls in ALGORITHMS]
    grpo = next(row for row in listed if row["name"] == "GRPO")
    assert grpo == {
        "name": "GRPO",
        "distribution": "lightrl-grpo",
        "summary": "Group relative policy optimisation.",
        "source": "Shao et al. 2024, arXiv:2402.03300, section 4.1.",
    }
    table = lightrl("algorithms").out
    assert all(cls.__name__ in table for cls in ALGORITHMS)


@EVERY
def test_every_algorithm_has_a_sentence_and_a_source(cls: type[Any]) -> None:
    assert documentation(cls).summary.endswith(".")
    assert documentation(cls).source, f"{cls.__name__} has a Source: paragraph"


@pytest.mark.parametrize("words", [["algorithms", "GRPOO"], ["explain", "GRPOO"], ["diff", "GRPO", "GRPOO"]])
def test_an_unknown_name_is_answered_with_what_exists(lightrl: Callable[..., Any], words: list[str]) -> None:
    answer = lightrl(*words)
    assert answer.status == 2
    assert "no algorithm is named 'GRPOO'. Did you mean 'GRPO'? Known: " in answer.err
    assert len(answer.lines) <= 3


def test_explain_names_the_closest_thing_of_any_kind(lightrl: Callable[..., Any]) -> None:
    answer = lightrl("explain", "ExactMatsh")
    assert answer.status == 2
    assert "nothing is named 'ExactMatsh'. Did you mean 'ExactMatch'?" in answer.err


def test_explain_shows_part_arguments_formula_and_source(lightrl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    out = lightrl("explain", "GRPO").out
    row = next(line for line in out.splitlines() if line.startswith("│ aggregation"))
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "aggregation",
        "SequenceMean",
        "count_filtered=False",
        "w = m / (S L_i).",
        "Shao et al. 2024 (GRPO), arXiv:2402.03300, eq. 3.",
    ]
    assert "│ critic " in out
    assert "GRPO (lightrl-grpo): Group relative policy optimisation." in out


def test_explain_on_a_narrow_terminal_cuts_nothing(lightrl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert "…" not in lightrl("explain", "GRPO").out


def test_the_formula_is_the_defining_sentence_of_the_docstring() -> None:
    assert documentation(TokenMean).formula == "w = m / N_tok."
    assert documentation(DecoupledClip).formula.startswith("J_t = min(r_t A_t")
    assert documentation(KLPenalty).formula.startswith("With d = log pi")
    assert documentation(DecoupledClip).source.startswith("Schulman et al. 2017")


def test_every_part_of_the_core_opens_with_a_sentence() -> None:
    classes = [cls for r in registry().records if r.distribution == CORE for found in r.classes.values() for cls in found]
    assert not [cls.__name__ for cls in classes if issubclass(cls, Part) and not documentation(cls).summary.endswith(".")]


def test_explain_takes_a_part_too(lightrl: Callable[..., Any]) -> None:
    answer = lightrl("explain", "DecoupledClip")
    assert answer.status == 0
    assert answer.out.startswith("clip scheme DecoupledClip: PPO's pessimistic clip")
    assert "arXiv:1707.06347" in answer.out
    assert "how far the ratio may fall below 1" in " ".join(answer.out.replace("│", " ").split())


@pytest.mark.parametrize("name", ["TokenWeight", "token weight", "token-weight"])
def test_explain_takes_a_kind_too(lightrl: Callable[..., Any], name: str) -> None:
    answer = lightrl("explain", name)
    assert answer.status == 0, answer.err
    assert "Which rows or tokens carry how much loss?" in answer.out
    assert "MaskTruncated" in answer.out
    assert "plugins new my-idea --kind token-weight" in " ".join(answer.out.split())


def test_the_list_of_algorithms_names_the_objectives(lightrl: Callable[..., Any]) -> None:
    listed = " ".join(lightrl("algorithms").out.split())
    named = listed.partition("Objectives on given answers (PreferenceOptimization): ")[2].partition(". ")[0].split(", ")
    assert named == sorted(cls.__name__ for _, cls in registry().of_kind("objective"))
