import datetime
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from lightrl.data.files import DatasetPrompts, JsonLines, Parquet

ROWS = [{"prompt": f"{n}+1=", "answer": str(n + 1), "level": n} for n in range(4)]


def written(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_every_format_gives_the_same_prompts(tmp_path: Path) -> None:
    plain = JsonLines(written(tmp_path / "a.jsonl", ROWS), chat=False)
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write((tmp_path / "a.jsonl").read_text())
    parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    sources = [
        plain,
        JsonLines(str(tmp_path / "a.jsonl.gz"), chat=False),
        Parquet(str(tmp_path / "a.parquet"), chat=False),
    ]
    for source in sources:
        assert source.size == 4
        assert [source.prompt(i) for i in range(4)] == [plain.prompt(i) for i in range(4)]
    first = plain.prompt(0)
    assert (first.text, first.messages, first.answer, dict(first.columns)) == ("0+1=", None, "1", {"level": 0})


def test_a_datasets_folder_and_what_save_to_disk_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets = pytest.importorskip("datasets")
    folder, saved, several = tmp_path / "folder", tmp_path / "saved", tmp_path / "several"
    folder.mkdir()
    written(folder / "train.jsonl", ROWS)
    table = datasets.Dataset.from_list(ROWS)
    table.save_to_disk(saved)
    datasets.DatasetDict(test=table).save_to_disk(several)
    assert DatasetPrompts(str(folder), split="train[:2]").size == 2
    assert DatasetPrompts(str(saved)).prompt(3).answer == "4"
    assert DatasetPrompts(str(several), split="test").size == 4
    with pytest.raises(ValueError, match=r"'train'.*test"):
        DatasetPrompts(str(several))
    with pytest.raises(ValueError, match="load"):
        DatasetPrompts(str(folder), split="dev")
    with pytest.raises(ValueError, match="/saved'"):
        DatasetPrompts(str(tmp_path / "savd"))


def test_a_data_set_with_a_script_is_refused_and_never_run(tmp_path: Path) -> None:
    folder, mark = tmp_path / "evil", tmp_path / "ran"
    folder.mkdir()
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\n")
    with pytest.raises(ValueError, match="load"):
        DatasetPrompts(str(folder))
    assert not mark.exists()


def test_chat_is_the_default_and_takes_a_system_prompt(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", ROWS)
    assert JsonLines(path).prompt(0).messages == ({"role": "user", "content": "0+1="},)
    assert JsonLines(path, system="Be brief.").prompt(0).messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "0+1="},
    )


def test_a_conversation_is_kept_as_it_is(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    source = JsonLines(written(tmp_path / "a.jsonl", [{"prompt": turns}]), answer=None)
    assert source.prompt(0).messages == tuple(turns)
    own = written(tmp_path / "b.jsonl", [{"prompt": [{"role": "system", "content": "s"}, *turns]}])
    with pytest.raises(ValueError, match=r"b\.jsonl:1: .*system"):
        JsonLines(own, answer=None, system="Be brief.")


def test_a_template_fills_columns_and_keeps_them(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [{"question": "1+1?", "n": 2, "answer": 2}])
    prompt = JsonLines(path, template="{question} ({n}) \\boxed{{}}", chat=False).prompt(0)
    assert prompt.text == "1+1? (2) \\boxed{}"
    assert prompt.columns == {"question": "1+1?", "n": 2}


def test_ids_come_from_the_content_and_duplicates_are_numbered(tmp_path: Path) -> None:
    there = JsonLines(written(tmp_path / "a.jsonl", [ROWS[0], ROWS[1], ROWS[0]]))
    back = JsonLines(written(tmp_path / "b.jsonl", [ROWS[1], ROWS[0]]))
    ids = [there.prompt(i).id for i in range(3)]
    assert ids[2] == f"{ids[0]}-2"
    assert [back.prompt(i).id for i in range(2)] == [ids[1], ids[0]]


def test_given_ids_must_be_unique(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [*ROWS, {**ROWS[0], "level": 2}])
    with pytest.raises(ValueError, match=r"a\.jsonl:5: .*'2'.*'level'.*a\.jsonl:3"):
        JsonLines(path, id="level")
    assert JsonLines(path, id="level", limit=4).prompt(2).id == "2"


def test_only_the_wanted_columns_are_kept(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "when": datetime.date(2024, 1, 1), "level": 1}]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet row 1: .*'when'.*`columns`"):
        Parquet(str(tmp_path / "a.parquet"), answer=None)
    assert Parquet(str(tmp_path / "a.parquet"), answer=None, columns=["level"]).prompt(0).columns == {"level": 1}


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("", {}, "holds no rows"),
        ("\n\n", {}, "holds no rows"),
        ('{"prompt": "a", "answer": 1}\n{"prompt": \n', {}, r"a.jsonl:2: not valid JSON: Expecting value at column \d+"),
        ("[1]\n", {}, "every line must be a JSON object .* got a list"),
        ('{"question": "a", "answer": 1}\n', {}, "no column 'prompt'. It has: question, answer. Set `prompt`"),
        ('{"question": "a", "answer": 1}\n', {"prompt": "questoin"}, "Did you mean 'question'"),
        ('{"prompt": "a"}\n', {}, "Set `answer` to one of them; or null if there is no reference answer"),
        ('{"prompt": "a"}\n', {"answer": None, "columns": ["level"]}, "no column 'level'"),
        ('{"prompt": 3, "answer": 1}\n', {}, "must hold a string or a list of messages .* got int '3'"),
        ('{"prompt": [], "answer": 1}\n', {}, "got list"),
        ('{"prompt": [{"role": "user"}], "answer": 1}\n', {}, "list of messages"),
        ('{"prompt": [{"role": "human", "content": "1"}], "answer": 1}\n', {}, "which is called 'user' here"),
        ('{"prompt": "a", "answer": 1}\n', {"template": "no field"}, "names no column"),
        ('{"prompt": "a", "answer": 1}\n', {"template": "\\boxed{}"}, "literal braces"),
        ('{"prompt": "a", "answer": 1}\n', {"template": "{prompt.__class__}"}, "is no column name"),
        ('{"prompt": "a", "answer": 1}\n', {"template": "{prompt"}, "malformed"),
        ('{"prompt": "a", "answer": 1}\n', {"template": "{answer}", "prompt": "answer"}, "both prompt: answer and a template"),
        ('{"prompt": "a", "answer": 1}\n', {"system": "s", "chat": False}, "raw text has no system message"),
        ('{"prompt": "a", "answer": 1}\n', {"limit": 0}, "limit >= 1"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, content: str, arguments: dict[str, Any], words: str) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(ValueError, match=words):
        JsonLines(str(tmp_path / "a.jsonl"), **arguments)


def test_files_that_are_not_there_or_not_what_they_say(tmp_path: Path) -> None:
    written(tmp_path / "train.jsonl", ROWS)
    with pytest.raises(ValueError, match=r"/train\.jsonl'\?.*: train\.jsonl"):
        JsonLines(str(tmp_path / "trian.jsonl"))
    with pytest.raises(ValueError, match="folder"):
        JsonLines(str(tmp_path / "nowhere" / "train.jsonl"))
    with pytest.raises(ValueError, match="Parquet"):
        Parquet(str(tmp_path / "train.jsonl"))
    (tmp_path / "fake.jsonl.gz").write_text("{}")
    with pytest.raises(ValueError, match="text"):
        JsonLines(str(tmp_path / "fake.jsonl.gz"))
