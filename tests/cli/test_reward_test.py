"""`lightrl reward test`: the rewards of a config on completions of a file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightrl.cli import main

REWARDS = """
def right(completion, answer):
    return float(completion.split()[-1] == answer)

def length(completion):
    return float(len(completion))

def level(level):
    return level

def breaks(completion):
    if "7" in completion:
        raise KeyError("tests")
    return None if "8" in completion else 1.0

def nothing(completion):
    return "good"

def silent(completion):
    return None
"""
ROWS: list[dict[str, Any]] = [
    {"prompt": "1+1=", "answer": "2", "completion": "is 2", "good": True},
    {"prompt": "1+1=", "answer": "2", "completion": "is 3", "good": False},
    {"prompt": "1+1=", "answer": "2", "completion": "is 7", "good": False},
    {"prompt": "2+2=", "answer": "4", "completion": "is 4", "good": False},
    {"prompt": "2+2=", "answer": "4", "completion": "so it is 4", "good": None},
    {"prompt": "4+4=", "answer": "8", "completion": "is 8", "good": True},
]


@pytest.fixture
def write_rows(write: Callable[..., Path]) -> Callable[..., Path]:
    """Write the config's rewards and a file of completions."""

    def write_rows(rows: list[dict[str, Any]], **rewards: dict[str, Any]) -> Path:
        write("mine.py", REWARDS)
        chosen = rewards or {"right": {"path": "mine.right", "runs": "inline"}}
        write("test.yaml", {"model": {"rewards": chosen}})
        return write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    return write_rows


def inline(name: str, **arguments: Any) -> dict[str, Any]:
    return {"path": f"mine.{name}", "runs": "inline", **arguments}


def found(lightrl: Callable[..., Any], *words: str, status: int = 0) -> dict[str, Any]:
    answer = lightrl("reward", "test", "--config", "test.yaml", "--data", "rows.jsonl", "--json", *words)
    assert answer.status == status, answer.err
    return json.loads(answer.out)  # type: ignore[no-any-return]


def test_weights_gates_and_normalisation_are_those_of_a_run(lightrl: Callable[..., Any], write_rows: Callable[..., Path]) -> None:
    length = inline("length", weight=0.5, normalize="group", gate="right")
    write_rows(ROWS, right=inline("right"), length=length)
    seen = found(lightrl, "--out", "deep/scored.jsonl")
    assert (seen["rows"], seen["prompts"]) == (6, 3)
    assert seen["fields"] == {"prompt": "prompt", "completion": "completion", "answer": "answer"}
    right, length = seen["rewards"]["right"], seen["rewards"]["length"]
    assert (right["mean"], right["min"], right["max"], right["weight"]) == (pytest.approx(4 / 6), 0, 1, 1)
    assert length["gated"] == 2
    assert length["mean"] == pytest.approx((4 + 4 + 10 + 4) / 6)
    # lengths 4, 0, 0 | 4, 10 | 4: z = 2/sqrt(3), -1/sqrt(3) twice | -1/sqrt(2), 1/sqrt(2) | 0
    rows = [json.loads(line) for line in Path("deep/scored.jsonl").read_text().splitlines()]
    z = [2 / 3**0.5, -1 / 3**0.5, -1 / 3**0.5, -(0.5**0.5), 0.5**0.5, 0]
    assert [row["contributions"]["length"] for row in rows] == pytest.approx([0.5 * v for v in z], abs=1e-5)
    assert [row["total"] for row in rows] == pytest.approx([r + 0.5 * v for r, v in zip([1, 0, 0, 1, 1, 1], z, strict=True)], abs=1e-5)
    assert rows[0]["completion"] == "is 2"
    assert right["share"] + length["share"] == pytest.approx(1)


def test_failures_are_counted_by_kind_and_the_first_is_shown(lightrl: Callable[..., Any], write_rows: Callable[..., Path]) -> None:
    write_rows(ROWS, breaks=inline("breaks", max_error_rate=0.0), right=inline("right", weight=0.0))
    one = found(lightrl)
    assert {what: one["rewards"]["breaks"][what] for what in ("error", "timeout", "abstained", "gated")} == {
        "error": 1, "timeout": 0, "abstained": 1, "gated": 0,
    }  # fmt: skip
    assert one["rewards"]["breaks"]["first_failure"].startswith("row 3: ")
    assert "KeyError: 'tests'" in one["rewards"]["breaks"]["first_failure"]
    assert one["total"]["unscorable"] == 2
    assert one["error_budget"].startswith("reward 'breaks' failed on 1 of the last 6")
    shown = lightrl("reward", "test", "--config", "test.yaml", "--data", "rows.jsonl").out
    assert "breaks failed on 1 of 6 rows; first: row 3" in shown
    assert "A run would stop here: reward 'breaks' failed on 1 of the last 6" in shown


def test_labels_are_compared_and_the_exit_status_tells(lightrl: Callable[..., Any], write_rows: Callable[..., Path]) -> None:
    write_rows(ROWS, right=inline("right"), breaks=inline("breaks", weight=0.0))
    seen = found(lightrl, "--expect", "right=good", status=1)
    assert (seen["expect"]["compared"], seen["expect"]["disagreeing"]) == (5, 1)
    assert [(row["row"], row["expected"], row["total"]) for row in seen["outliers"]] == [(4, 0, 1)]
    shown = lightrl("reward", "test", "--config", "test.yaml", "--data", "rows.jsonl", "--expect", "right=good")
    assert "Labels 'good' for 'right': 4 of 5 agree (80.00%)" in shown.out
    assert 'completion  "is 4"' in shown.out
    write_rows([row for row in ROWS if row["completion"] != "is 4"], breaks=inline("breaks"))
    assert found(lightrl, "--expect", "good", status=1)["expect"]["without_score"] == 2
    write_rows(ROWS[:3])
    assert found(lightrl, "--expect", "good")["expect"]["disagreeing"] == 0
    # what was written is a file of completions again: a change of the rewards is seen against it
    found(lightrl, "--out", "before.jsonl")
    again = ["reward", "test", "--config", "test.yaml", "--data", "before.jsonl", "--expect", "total"]
    assert lightrl(*again).status == 0
    assert lightrl(*again, "--model.rewards.length", "mine.length").status == 1


def test_true_and_false_are_labels_of_the_reward_that_decides(lightrl: Callable[..., Any], write_rows: Callable[..., Path]) -> None:
    # the length makes every total positive, also of what is wrong
    write_rows(ROWS[:3], length=inline("length"), right=inline("right"))
    assert found(lightrl, "--expect", "good", status=1)["expect"]["disagreeing"] == 2
    assert found(lightrl, "--expect", "good", "--model.evaluation.correct", "right")["expect"]["disagreeing"] == 0
    wrong = lightrl("reward", "test", "--config", "test.yaml", "--data", "rows.jsonl", "--model.evaluation.correct", "wrong")
    assert (wrong.status, "evaluation.correct is 'wrong'" in wrong.err) == (2, True)
    write_rows([{**row, "good": float(row["good"])} for row in ROWS[:3]], right=inline("right"), zlength=inline("length"))
    assert found(lightrl, "--expect", "good", status=1)["expect"]["disagreeing"] == 2, "numbers are labels of the total"


def test_rows_without_any_total_are_no_success(lightrl: Callable[..., Any], write_rows: Callable[..., Path]) -> None:
    write_rows(ROWS, silent=inline("silent"))
    assert found(lightrl, status=1)["total"]["unscorable"] == len(ROWS)
    compared = {"compared": 0, "disagreeing": 0, "without_score": 5, "correlation": None}
    assert found(lightrl, "--expect", "good", status=1)["expect"] == compared
    shown = lightrl("reward", "test", "--config", "test.yaml", "--data", "rows.jsonl", "--expect", "good").out
    assert "No score differs" not in shown


def test_the_odd_one_out_of_its_prompt_is_the_largest_outlier(lightrl: Callable[..., Any], write_rows: Callable[..., Path]) -> None:
    a = [{"prompt": "a", "answer": "1", "completion": text} for text in ("1", "0", "0", "0")]
    b = [{"prompt": "b", "answer": "1", "completion": text} for text in ("1", "1", "0", "0")]
    write_rows([*a, *b])
    seen = found(lightrl, "--top", "2")["outliers"]
    # the mean of the totals is 3/8, their variance 15/64
    assert seen[0]["row"] == 1
    assert seen[0]["deviation"] == pytest.approx(1 / (15 / 64) ** 0.5, abs=1e-5)
    assert seen[1]["deviation"] == pytest.approx(2 / 3 / (15 / 64) ** 0.5, abs=1e-5)
    write_rows(a[1:])
    answer = lightrl("reward", "test", "--config", "test.yaml", "--data", "rows.jsonl")
    assert "no row stands out" in answer.out


def test_columns_are_found_as_the_training_data_name_them(
    lightrl: Callable[..., Any], write: Callable[..., Path], write_rows: Callable[..., Path]
) -> None:
    rows = [{"question": r["prompt"], "solution": r["answer"], "response": r["completion"], "level": 2} for r in ROWS]
    write_rows(rows, right=inline("right"), level=inline("level"))
    source = {
        "class_path": "JsonLines",
        "init_args": {"path": "gone.jsonl", "prompt": "question", "answer": "solution", "system": "Be brief."},
    }
    write("data.yaml", {"data": {"train": source}})
    seen = found(lightrl, "--config", "data.yaml")
    assert seen["fields"] == {"prompt": "question", "completion": "response", "answer": "solution"}
    assert seen["rewards"]["level"]["mean"] == 2
    named = ["--prompt-field", "question", "--completion-field", "response", "--answer-field", "solution"]
    assert found(lightrl, *named)["rewards"].keys() == seen["rewards"].keys()


def test_gzip_and_parquet(lightrl: Callable[..., Any], write_rows: Callable[..., Path], tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    plain = write_rows(ROWS)
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    means = [found(lightrl, "--data", name)["total"]["mean"] for name in ("rows.jsonl", "rows.jsonl.gz", "rows.parquet")]
    assert means == [pytest.approx(4 / 6)] * 3


def test_rewards_of_whole_rollouts_see_the_policys_tokens(lightrl: Callable[..., Any], write_rows: Callable[..., Path]) -> None:
    write_rows(ROWS[:2], long={"class_path": "Length", "init_args": {"target": 10}})
    answer = lightrl("reward", "test", "--config", "test.yaml", "--data", "rows.jsonl")
    assert answer.status == 2
    assert "model.policy: not given, and its tokenizer is needed: the reward 'long' is given whole rollouts" in answer.err
    # one token per character and EOS: 5 of 10
    assert found(lightrl, "--model.policy", "TinyPolicy", "--model.policy.alphabet", "0123456789is+= ")["rewards"]["long"]["mean"] == -0.5


@pytest.mark.parametrize(
    ("words", "hints"),
    [
        (["--data", "rws.jsonl"], ["--data: there is no file 'rws.jsonl'", "Did you mean"]),
        (["--data", "empty.jsonl"], ["'empty.jsonl' holds no rows"]),
        (["--data", "broken.jsonl"], ["broken.jsonl:2: not valid JSON"]),
        (["--data", "bare.jsonl"], ["no column holds the completion: looked for 'completion' or 'response'. There are: prompt"]),
        (["--data", "unanswered.jsonl"], ["the rewards right want an answer", "--answer-field COLUMN"]),
        (["--data", "silent.jsonl"], ["silent.jsonl:1", "must hold the completion's text, got NoneType"]),
        (["--prompt-field", "promt"], ["--prompt-field: there is no column 'promt'. Did you mean 'prompt'?"]),
        (["--expect", "god"], ["--expect: row 1 has no column 'god'. Did you mean 'good'?"]),
        (["--expect", "wrong=good"], ["--expect: there is no reward 'wrong'"]),
        (["--expect", "answer"], ["'answer' is '2', expected true, false, a number or null"]),
        (["--limt", "3"], ["--limt: there is no such option. Did you mean 'limit'?"]),
        (["--limit", "0"], ["needs limit >= 1"]),
        (["--out", "rows.jsonl"], ["--out: 'rows.jsonl' is the file that is read"]),
        (["--model.rewards.level", "mine.level"], ["reward 'level' (Function) wants the argument 'level'", "Columns: good"]),
        (["--model.rewards.right.gate", "style"], ["reward 'right' has the gate 'style', which is no reward here"]),
        (["--model.rewards.right", "Functoin"], ["model.rewards.right", "Did you mean 'Function'?"]),
        (["--model.rewards.x.path", "mine.nothing"], ["reward 'x', row 0", "got str 'good', expected a number"]),
    ],
)  # fmt: skip
def test_a_wrong_request(
    words: list[str], hints: list[str], lightrl: Callable[..., Any], write: Callable[..., Path], write_rows: Callable[..., Path]
) -> None:
    write_rows(ROWS)
    write("empty.jsonl", "\n")
    write("broken.jsonl", json.dumps(ROWS[0]) + "\n{oops\n")
    write("bare.jsonl", '{"prompt": "1+1="}\n')
    write("unanswered.jsonl", '{"prompt": "1+1=", "completion": "2"}\n')
    write("silent.jsonl", '{"prompt": "1+1=", "completion": null, "answer": "2"}\n')
    answer = lightrl("reward", "test", "--config", "test.yaml", "--data", "rows.jsonl", *words)
    assert answer.status == 2
    assert "Traceback" not in answer.err
    for hint in hints:
        assert hint in answer.err


def test_the_verb_without_more(lightrl: Callable[..., Any]) -> None:
    assert "lightrl reward test --config" in lightrl("reward").out
    answer = lightrl("reward", "tset")
    assert answer.status == 2
    assert "Did you mean 'reward test'?" in answer.err
    assert main(["reward", "test", "--help"]) == 0
    assert "--data: not given" in lightrl("reward", "test", "--config", "run.yaml").err
    assert "--config: not given" in lightrl("reward", "test", "--data", "x.jsonl").err
