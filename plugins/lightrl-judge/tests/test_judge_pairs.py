"""A judge labels the pairs of a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightrl import JsonLines, TinyPolicy
from lightrl.cli import main
from lightrl.training.offline.pair_batch import encode_pairs

ROWS = [
    *({"prompt": "1+1=", "level": 1, "answer": "2", "completion": text} for text in ("2", "22", "222", "2", " ")),
    *({"prompt": "2+2=", "level": 2, "answer": "4", "completion": text} for text in ("4", "5")),
    {"prompt": "3+3=", "level": 3, "answer": "6", "completion": "6"},
    {"prompt": "4+4=", "level": 4, "answer": "8", "completion": "8", "finish_reason": "length"},
    {"prompt": "4+4=", "level": 4, "answer": "8", "completion": "88"},
]


def answers(body: dict[str, Any]) -> tuple[str, str]:
    a, _, b = body["messages"][1]["content"].partition("</answer A>")
    return a.partition("<answer A>\n")[2].strip(), b.partition("<answer B>\n")[2].removesuffix("\n</answer B>")


def longer(body: dict[str, Any], number: int) -> str:
    """The longer answer wins; of equal ones that in the first place, except that two digits beside one are a tie."""
    a, b = answers(body)
    if {len(a), len(b)} == {1, 2}:
        return '{"winner": "tie"}'
    return f'{{"winner": "{"A" if len(a) >= len(b) else "B"}"}}'


@pytest.fixture
def pairs(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Callable[..., Any]:
    """Call `lightrl reward pairs` on the rows above, with this judge."""
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    server.behaviour = longer

    def pairs(*words: str, **arguments: Any) -> tuple[int, str, str]:
        judge = {"class_path": "JudgePair", "init_args": {"model": "m", "base_url": server.url, "retries": 0, **arguments}}
        Path("judge.yaml").write_text(yaml.safe_dump({"model": {"rewards": {"judge": judge}}}))
        capsys.readouterr()
        status = main(["reward", "pairs", "--config", "judge.yaml", "--data", "rows.jsonl", "--out", "pairs.jsonl", *words])
        said = capsys.readouterr()
        return status, " ".join(said.out.split()), " ".join(said.err.split())

    return pairs


def written() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("pairs.jsonl").read_text().splitlines()]


def test_pairs_that_the_judge_decides_are_written_and_the_others_counted(server: Any, pairs: Callable[..., Any]) -> None:
    status, out, err = pairs("--per_prompt", "3")
    assert status == 0, err
    # 1+1=: 222 beats 2 and 22, 22 beside 2 is a tie; 2+2=: the first place wins; the others have nothing to compare
    assert sorted((row["chosen"], row["rejected"]) for row in written()) == [("222", "2"), ("222", "22")]
    assert all({"prompt": "1+1=", "level": 1, "answer": "2"}.items() <= row.items() for row in written())
    assert "prompts 4 prompts without two completions to compare 2 pairs 4 decided 2 ties 1" in out
    assert "undecided: the order made the difference 1 failed 0 agreement of the two orders 0.7500 requests 8 tokens 80" in out
    assert "2 pairs: pairs.jsonl" in out
    assert len(server.requests) == 8


def test_what_is_written_is_read_as_preferences(pairs: Callable[..., Any]) -> None:
    assert pairs("--per_prompt", "3")[0] == 0
    source = JsonLines("pairs.jsonl", chat=False)
    rows = encode_pairs(TinyPolicy(hidden=16, layers=1, heads=2).build(), [source.prompt(i) for i in range(source.size)])
    assert len(rows) == 2


def test_one_pair_of_a_prompt_by_default_and_the_seed_decides_which(server: Any, pairs: Callable[..., Any]) -> None:
    drawn = set()
    for seed in range(6):
        Path("pairs.jsonl").unlink(missing_ok=True)
        server.requests.clear()
        pairs("--seed", str(seed))
        assert len(server.requests) == 4
        drawn |= {frozenset(answers(body)) for body in server.requests if "1+1=" in body["messages"][1]["content"]}
    assert len(drawn) > 1
    assert all(not pair & {"", "88"} for pair in drawn)


def test_a_spent_budget_ends_it_and_a_higher_one_goes_on(server: Any, pairs: Callable[..., Any]) -> None:
    words = ("--per_prompt", "3", "--prompts_at_a_time", "1")
    status, _, err = pairs(*words, max_requests=6, max_error_rate=0.0, error_window=4)
    assert status == 2
    assert "max_requests is 6" in err
    assert "1 prompts are done and kept" in err
    assert not Path("pairs.jsonl").exists()
    status, out, err = pairs(*words, max_requests=50, max_error_rate=0.0, error_window=4)
    assert status == 0, err
    assert "1 prompts are done: going on" in err
    assert "rewards.init_args.max_requests was 6 and is 50" in err
    assert "pairs 4 decided 2 ties 1" in out
    assert len(server.requests) == 8


def test_failures_are_counted_and_where_nothing_is_decided_no_file_is_written(server: Any, pairs: Callable[..., Any]) -> None:
    server.behaviour = lambda body, number: "no verdict" if "1+1=" in body["messages"][1]["content"] else '{"winner": "A"}'
    status, out, err = pairs(ask_again=0, max_error_rate=1.0)
    assert status == 1
    assert "pairs 2 decided 0 ties 0 undecided: the order made the difference 1 failed 1" in out
    assert "No pair was decided" in err
    assert not list(Path().glob("pairs*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model.rewards.judge", "JudgeScore", "--model.rewards.judge.model", "m"], "want the column 'other'; judge: none does"),
        (["--data", "nowhere.jsonl"], "there is no file 'nowhere.jsonl'"),
        (["--out", "rows.jsonl"], "'rows.jsonl' is there already"),
        (["--per_prompt", "0"], "must be 1 or more"),
        (["--model.rewards.second", "JudgePair", "--model.rewards.second.model", "m"], "judge, second all do"),
        (["--model.rewards.judge.template", "{rubric} {a} {b}"], "wants the argument 'rubric'"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_before_the_first_request(server: Any, pairs: Callable[..., Any], words: list[str], said: str) -> None:
    status, _, err = pairs(*words)
    assert status == 2
    assert said in err
    assert not server.requests
