"""Verdicts of `make bench CASE=claims`: from the numbers of seeds alone, by the rule that its page states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import config_file
from benchmarks.evidence import claim_verdict, claims
from lightrl.config.build.builder import Builder
from lightrl.config.merge.resolve import resolve
from lightrl.config.read.settings import read_words

ROOT = Path(__file__).parents[1]


@pytest.fixture
def compared() -> Any:
    """The function that finds a verdict."""
    return claim_verdict.compared


def claim(**changes: Any) -> Any:
    described = {"name": "n", "effect": "e", "source": "s", "side": "grpo", "without": "centred", "measure": "late_entropy"}
    return claims.Claim(**{**described, "expected": "higher", "threshold": 0.1, **changes})


@pytest.mark.parametrize(
    ("having", "word"),
    [
        ([1.2, 1.3, 1.25], "seen"),
        ([0.8, 0.7, 0.75], "opposite"),
        ([1.01, 1.02, 1.03], "not seen"),  # certain, and below the threshold
        ([1.0, 1.9, 1.0], "not seen"),  # above the threshold, and not certain
    ],
)
def test_an_effect_is_seen_if_it_is_certain_and_large_enough(having: list[float], word: str, compared: Any) -> None:
    assert compared(claim(), having, [1.0, 1.0, 1.0]).word == word
    lower = {"seen": "opposite", "opposite": "seen"}.get(word, word)
    assert compared(claim(expected="lower"), having, [1.0, 1.0, 1.0]).word == lower


def test_the_interval_is_that_of_student(compared: Any) -> None:
    # effects 0.2, 0.3 and 0.25: mean 0.25, deviation 0.05, t(0.975, 2) = 4.3027, half 4.3027 * 0.05 / sqrt(3) = 0.1242
    assert compared(claim(), [1.2, 1.3, 1.25], [1.0, 1.0, 1.0]).effect == "+25.0% (+12.6% to +37.4%)"


def test_a_factor_must_hold_for_every_seed(compared: Any) -> None:
    exact = claim(expected="factor", threshold=1e-5, factor=2.0)
    assert compared(exact, [2.0, 4.0], [1.0, 2.0]).word == "seen"
    assert compared(exact, [2.0, 4.001], [1.0, 2.0]).word == "not seen"
    assert compared(exact, [2.0, 5.0], [1.0, 2.0]).spread.high == pytest.approx(1.5)  # times 2.5, less 1


def test_every_claim_has_two_sides_and_a_measure() -> None:
    for one in claims.CLAIMS:
        assert {one.side, one.without} <= set(claims.SIDES)
        assert one.measure in claims.MEASURES


def test_every_side_can_be_run(tmp_path: Path) -> None:
    for number, side in enumerate([*claims.SIDES.values(), *claims.LADDER.values()]):
        assert side.start in claims.STARTS
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(claims.changes_of(side, 3)))
        found = resolve("fit", read_words(["--config", str(config_file(side.config)), "--config", str(file)]))
        assert [found.model.value("seed"), found.data.value("seed")] == [3, 3]
        # parts that do not go together are refused here
        Builder().build(found.model, "model")


def test_a_measure_that_has_no_numbers_is_no_effect(compared: Any) -> None:
    assert compared(claim(), [float("nan")] * 3, [1.0] * 3).word == "not seen"
    assert compared(claim(), [0.0] * 3, [0.0] * 3).word == "not seen"


def test_the_page_is_the_one_that_the_command_writes(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "claims.md").read_text()
    assert [page.count(f"| {one.name}: {one.effect} ") for one in claims.CLAIMS] == [1] * len(claims.CLAIMS)
    assert [page.count(f"| {name} | ") for name in claims.LADDER] == [1] * len(claims.LADDER)
    unrun = claims.page([(one, claims.verdict(one, tmp_path)) for one in claims.CLAIMS], claims.ladder_rows(claims.rungs_of(tmp_path)))
    assert unrun.partition("opposite: 0")[0] == page.partition("opposite: ")[0]
    assert "not run: 12." in unrun


def test_the_picture_has_the_rows_of_the_page_with_their_words(compared: Any, tmp_path: Path) -> None:
    opposite = compared(claims.CLAIMS[0], [0.7, 0.6, 0.8], [1.0, 1.0, 1.0])
    found = claims.ordered([(one, opposite if number == 0 else claims.verdict(one, tmp_path)) for number, one in enumerate(claims.CLAIMS)])
    effects, ladder = claims.draw(found, claims.rungs_of(tmp_path), tmp_path / "claims.png").axes
    names = [label.get_text() for label in effects.get_yticklabels()]
    assert names[0] == f"{claims.CLAIMS[0].name}: {claims.CLAIMS[0].effect}"
    assert len(names) == len(claims.CLAIMS)
    assert [text.get_text() for text in effects.texts] == ["opposite"] + ["not run"] * (len(names) - 1)
    assert [label.get_text() for label in ladder.get_yticklabels()] == list(claims.LADDER)
    # the dot of the only claim that has been run: mean effect -30 %
    assert [line.get_xdata()[0] for line in effects.lines if line.get_marker() == "s"] == [pytest.approx(-0.3)]
    assert (tmp_path / "claims.png").stat().st_size < 150_000


def test_the_plan_says_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "grpo-0").mkdir()
    (tmp_path / "grpo-0" / claims.DONE).write_text("{}")
    missing = claims.plan([claims.CLAIMS[0]], tmp_path, 2)
    assert ("grpo", 0) not in missing
    assert len(missing) == 9
    assert "1 runs are complete. The others take about 2 minutes on 2 idle cores." in capsys.readouterr().out


def test_each_rung_of_the_ladder_has_what_the_one_before_it_has() -> None:
    below: set[str] = set()
    for name, rung in claims.LADDER.items():
        has = set(rung.algorithm) | ({"rewards"} if rung.rewards else set())
        assert has >= below
        assert has != below or name == "+ token-level loss"  # it replaces the aggregation
        below = has
    assert below == {"aggregation", "token_weight", "clip", "rewards", "sampler"}


def test_a_plan_has_the_start_that_a_side_needs_and_no_other(tmp_path: Path) -> None:
    assert claims.starts_of([("vapo", 1), ("ppo", 1)], tmp_path) == [("start of 16 digits", 1)]
    assert claims.starts_of([("+ clip-higher", 0), ("grpo", 0)], tmp_path) == [("start", 0)]
