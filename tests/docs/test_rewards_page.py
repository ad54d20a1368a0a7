"""The page on several rewards: its files and commands work as written, and the run logs what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightrl.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "rewards.md").read_text()
FILES = dict(re.findall(r'```(?:python|yaml|json) title="([^"]+)"\n(.*?)```', PAGE, re.DOTALL))
COMMANDS = [line.split()[1:] for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.mark.filterwarnings("ignore")
def test_the_files_and_commands_work_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert [words[:2] for words in COMMANDS] == [["check", "--config"], ["fit", "--config"], ["reward", "test"], ["reward", "attack"]]
    for words in COMMANDS:
        assert main(words) == 0, words
    (events,) = (tmp_path / "runs").rglob("events.out.tfevents.*")
    logged = EventAccumulator(str(events.parent)).Reload()
    weights = {tag: [event.value for event in logged.Scalars(tag)] for tag in logged.Tags()["scalars"] if tag.endswith("/weight")}
    assert weights["rewards/tidy/weight"] == pytest.approx([0.5, 0.495, 0.49])
    assert weights["val/rewards/tidy/weight"][-1] == 0.0
    for name in ("gated", "contribution", "share"):
        assert f"rewards/short/{name}" in logged.Tags()["scalars"]
