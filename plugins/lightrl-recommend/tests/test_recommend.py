"""Situations are chosen by answers, algorithms are compared on the same seeds, and the command says what it did."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pytest
from lightrl_recommend import Measured, Row, Situation, closest, measured, ranking
from lightrl_recommend.command import recommend
from lightrl_recommend.measured import ANSWERS, QUESTIONS
from lightrl_recommend.ranking import mean_and_half

from lightrl.config.describe.algorithms import registered

T_OF_ONE = 12.7062
"""Student's t with one degree of freedom, 0.975."""


def row(algorithm: str, *after: float, task: str = "a", critic: bool = False) -> Row:
    return Row(task, algorithm, "lightrl-zoo", critic, 0.001, (0.5,) * len(after), after)


def situation(name: str, **answers: str) -> Situation:
    return Situation(name, name, "tiny", 100, answers)


def test_a_share_is_the_way_to_the_best_score_that_is_1() -> None:
    assert Row("a", "X", "p", False, 0.001, (0.5, 0.2, 0.6), (0.75, 1.0, 0.5)).shares == pytest.approx((0.5, 1.0, -0.25))


def test_intervals_are_students_of_the_paired_differences() -> None:
    # shares 0.6 and 0.8 beside 0.4 and 0.7: differences -0.2 and -0.1
    results = Measured((situation("a"),), (row("Second", 0.7, 0.85), row("First", 0.8, 0.9)))
    first, second = ranking(results, results.situations)
    assert (first.algorithm, first.share, first.behind, first.told_apart) == ("First", pytest.approx(0.7), 0, False)
    assert second.share == pytest.approx(0.55)
    assert second.behind == pytest.approx(-0.15)
    assert second.half == pytest.approx(T_OF_ONE * 0.05, rel=1e-4)
    assert not second.told_apart


def test_a_difference_that_every_seed_has_is_told_apart() -> None:
    results = Measured((situation("a"),), (row("First", 0.8, 0.9, 0.85), row("Last", 0.6, 0.71, 0.64)))
    assert [rank.told_apart for rank in ranking(results, results.situations)] == [False, True]


def test_a_single_value_has_no_interval() -> None:
    assert mean_and_half([0.5]) == (0.5, math.inf)


def test_only_algorithms_that_were_measured_everywhere_are_ranked() -> None:
    results = Measured((situation("a"), situation("b")), (row("Both", 0.7, 0.7), row("Both", 0.9, 0.9, task="b"), row("One", 1.0, 1.0)))
    (only,) = ranking(results, results.situations)
    assert (only.algorithm, only.share, only.rates) == ("Both", pytest.approx(0.6), (0.001, 0.001))


def test_the_situations_that_agree_with_most_answers_are_chosen() -> None:
    there = [situation("a", reward="exact", turns="one"), situation("b", reward="judge", turns="one"), situation("c", turns="several")]
    assert [each.name for each in closest(there, {"reward": "judge", "turns": "one"})] == ["b"]
    assert [each.name for each in closest(there, {"turns": "one"})] == ["a", "b"]
    assert [each.name for each in closest(there, {})] == ["a", "b", "c"]
    # to a question that a situation has no answer to, any is right
    assert [each.name for each in closest(there, {"reward": "graded", "turns": "several"})] == ["c"]


def test_what_was_measured_is_whole_and_of_installed_algorithms() -> None:
    results = measured()
    assert {row.algorithm for row in results.rows} <= {cls.__name__ for _, cls in registered()}
    for each in results.situations:
        rows = [row for row in results.rows if row.task == each.name]
        assert rows, each.name
        assert len({(len(row.before), len(row.after)) for row in rows}) == 1, "pairs are of the same seeds"
        assert set(each.answers) <= set(QUESTIONS)
        assert all(answer in ANSWERS[question] for question, answer in each.answers.items())
        assert all(0 <= score <= 1 for row in rows for score in (*row.before, *row.after))


@pytest.mark.parametrize(("question", "answer"), [(question, answer) for question in QUESTIONS for answer in ANSWERS[question]])
def test_every_answer_is_that_of_a_situation(question: str, answer: str) -> None:
    assert any(each.answers.get(question) == answer for each in measured().situations)


def test_the_command_answers_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend(["--reward", "judge", "--turns", "one", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["answers"] == {"reward": "judge", "turns": "one"}
    assert said["situations"] == ["noisy"]
    shares = [rank["share"] for rank in said["ranking"]]
    assert shares == sorted(shares, reverse=True)
    assert len(shares) == len({row.algorithm for row in measured().rows if row.task == "noisy"})


def test_algorithms_with_a_critic_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    recommend(["--task", "often", "--no-critic", "--json"])
    said = json.loads(capsys.readouterr().out)["ranking"]
    assert said
    assert not any(rank["critic"] for rank in said)


@pytest.mark.parametrize(("typed", "answers"), [("3\n2\n1\n1\n", 4), ("nonsense\njudge\n\n\n\n", 1), ("", 0)])
def test_a_person_is_asked_what_was_not_said(monkeypatch: pytest.MonkeyPatch, capsys: Any, typed: str, answers: int) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert recommend([]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(question in said for question in QUESTIONS.values())
    assert (f"of {answers} answers" in said) is (answers > 0)
    assert ("'nonsense' is none of 1, 2, 3, exact, graded, judge" in said) is ("nonsense" in typed)


def test_tasks_without_a_common_algorithm_are_refused_by_name() -> None:
    with pytest.raises(SystemExit):
        recommend(["--task", "sort"])
    with pytest.raises(SystemExit):
        recommend(["--top", "-1"])
