"""`lightrl report`: one page from the logs of runs, in which nothing that a model wrote can do anything."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightrl_runs.report.logs import read_table
from torch.utils.tensorboard import SummaryWriter

SETTINGS = {"rollouts": 4, "seed_everything": 0, "trainer": {"devices": 2, "num_nodes": 1}, "model": {"algorithm": "GRPO", "lr": 0.1}}
TABLE = "prompt | completion | finish | tokens | correct\n--- | --- | --- | --- | ---\n`1=` | `{said}` | stop | 3 | 0 → +0"


class Page(HTMLParser):
    """The elements, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.fixture
def made(lightrl: Callable[..., Any], tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """The report of runs."""

    def made(*runs: Path | str) -> Page:
        answer = lightrl("report", *map(str, runs), "--out", str(tmp_path / "page.html"))
        assert answer.status == 0, answer.err
        return Page((tmp_path / "page.html").read_text())

    return made


def run(folder: Path, rewards: list[float], said: str = "11", first: int = 0, **changes: Any) -> Path:
    """A run as TensorBoard's logger leaves it: a validation before the first rollout, then rewards; a resumed one validates later."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump({**SETTINGS, **changes}))
    with SummaryWriter(str(folder), filename_suffix=f".{first}") as log:
        when = first + 1 if first else 0
        log.add_scalar("val/reward", 0.25, when, walltime=100.0 + first)
        log.add_text("val/completions", TABLE.format(said=said), when, walltime=100.0 + first)
        for step, reward in enumerate(rewards, start=first + 1):
            log.add_scalar("reward", reward, step, walltime=80.0 + 30 * step)
            log.add_scalar("progress/tokens", 100 * step, step, walltime=80.0 + 30 * step)
    return folder


def test_real_runs_with_two_seeds_are_one_line(lightrl: Callable[..., Any], made: Callable[..., Page], tmp_path: Path) -> None:
    for seed in ("0", "1"):
        assert lightrl("fit", "--config", "run.yaml", "--seed_everything", seed, "--trainer.enable_checkpointing", "false").status == 0
    runs = sorted((tmp_path / "runs" / "run").iterdir())
    page = made(*runs)
    assert page.text.count("Complete: 2 of 2 rollouts.") == 2
    assert "(2 runs)" in page.text
    assert "None, but for seeds." in page.text
    assert "CPU hours" in page.text
    assert f"lightrl fit --config {runs[0]}/config.yaml" in page.text
    assert {"val/reward", "reward", "completions/mean_length"} <= {text.strip() for text in page.texts}
    assert "completion of" in page.text


def test_what_differs_stands_beside_each_other(made: Callable[..., Page], tmp_path: Path) -> None:
    a = run(tmp_path / "a", [0.0] * 4)
    b = run(tmp_path / "b", [0.5] * 4, model={"algorithm": "GRPO", "lr": 0.2})
    page = made(a, b)
    assert "model.lr 0.1 0.2" in page.text
    assert "A lr 0.1 (1 run)" in page.text
    assert "at the end: A 0, B 0.5" in page.text


def test_an_alarm_of_several_runs_gives_its_advice_once(made: Callable[..., Page], tmp_path: Path) -> None:
    folders = [run(tmp_path / name, [0.0] * 4, seed_everything=seed) for seed, name in enumerate("ab")]
    for folder, when in zip(folders, (2, 3), strict=True):
        with SummaryWriter(str(folder), filename_suffix=".alarms") as log:
            log.add_scalar("alarms/gradient", 1.0, when)
            log.add_text("alarms/gradient", f"**Rollout {when}:** it was {when}.\n\nIt matters.\n\n*To try:* `less`", when)
    told = made(*folders).text.partition("what to try ")[2]
    assert told.startswith(
        f"A gradient {folders[0]} Rollout 2: it was 2. {folders[1]} Rollout 3: it was 3. It matters. To try: less Curves"
    )


def test_the_table_of_csv_logger_is_read_up_to_a_line_that_was_cut_off(made: Callable[..., Page], tmp_path: Path) -> None:
    folder = tmp_path / "csv"
    folder.mkdir()
    (folder / "metrics.csv").write_text("epoch,reward,step,val/reward\n0,,0,0.25\n0,0.5,1,\n1,0.75,2,\n2,0.")
    page = made(folder)
    assert "2 rollout" not in page.text  # without a config nothing says what is counted
    assert "2 steps; last entry" in page.text
    assert "metrics.csv, line 5: not a row of numbers, left out" in page.text
    assert "There is no config.yaml" in page.text
    assert "at the end: A 0.75" in page.text


def test_an_event_file_that_was_cut_off_is_read_as_far_as_it_goes(made: Callable[..., Page], tmp_path: Path) -> None:
    folder = run(tmp_path / "killed", [0.0, 0.25, 0.5])
    [file] = folder.glob("events*")
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-7])
    page = made(folder)
    assert "of 4 rollouts, so a limit of its config, early stopping or a kill has ended it" in page.text
    assert re.search(rf"read up to byte [\d,]+ of {size - 7:,}; what follows is incomplete or damaged", page.text)


def test_a_damaged_event_file_is_told_of(made: Callable[..., Page], tmp_path: Path) -> None:
    folder = run(tmp_path / "whole", [0.0] * 4)
    assert "incomplete or damaged" not in made(folder).text
    (folder / "events.out.tfevents.9.noise").write_bytes(bytes(range(256)))
    assert "events.out.tfevents.9.noise: read up to byte 0 of 256" in made(folder).text


def test_runs_whose_logs_hold_different_costs_are_shown_together(made: Callable[..., Page], tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "metrics.csv").write_text("reward,step,progress/seconds\n0.5,1,61\n")
    text = made(run(tmp_path / "a", [0.0]), tmp_path / "csv").text
    assert "sampled tokens" in text
    assert "1 min 1 s" in text


def test_a_config_that_cannot_be_read_is_refused(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    (run(tmp_path / "a", [0.0]) / "config.yaml").write_text("a: [")
    answer = lightrl("report", "a")
    assert answer.status == 2
    assert "'a/config.yaml' is not a config: " in answer.err


def test_a_run_that_has_logged_nothing_yet_is_told_of(made: Callable[..., Page], tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.yaml").write_text(yaml.safe_dump(SETTINGS))
    assert "Nothing was logged before the report was made" in made(tmp_path / "new").text


def test_an_evaluation_alone_is_not_called_a_run_that_goes_on(made: Callable[..., Page], tmp_path: Path) -> None:
    text = made(run(tmp_path / "a", [])).text
    assert "Evaluated at " in text
    assert "no rollout has been logged" in text
    assert "Still going" not in text


def test_a_run_that_was_ended_by_a_signal_says_how_it_goes_on(made: Callable[..., Page], tmp_path: Path) -> None:
    folder = run(tmp_path / "a", [0.0])
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "preempted.ckpt").touch()
    assert f"Ended by a signal: 1 of 4 rollouts. It goes on with --ckpt_path {folder}/checkpoints/preempted.ckpt" in made(folder).text


def test_rollouts_that_a_resumed_run_repeated_count_once_and_its_pause_costs_nothing(made: Callable[..., Page], tmp_path: Path) -> None:
    run(tmp_path / "a", [0.0, 0.0, 0.0])
    page = made(run(tmp_path / "a", [1.0, 1.0], first=2))
    assert "Complete: 4 of 4 rollouts" in page.text
    assert "2 min 48 s" in page.text  # from 100 to 170, and from 102 to 200, in seconds of the two files
    assert "0.0933 (2 processes)" in page.text


def test_a_run_that_was_only_resumed_has_no_other_settings_and_is_repeated_from_its_start(
    made: Callable[..., Page], tmp_path: Path
) -> None:
    folder = run(tmp_path / "a", [0.0, 1.0])
    (folder / "config-2.yaml").write_text(yaml.safe_dump({**SETTINGS, "ckpt_path": str(folder / "checkpoints" / "best-rollout=1.ckpt")}))
    page = made(folder)
    assert "other settings" not in page.text
    assert f"lightrl fit --config {folder}/config.yaml" in page.text
    (folder / "config-3.yaml").write_text(yaml.safe_dump({**SETTINGS, "seed_everything": 7, "ckpt_path": "last.ckpt"}))
    page = made(folder)
    assert "It went on with other settings: config.yaml, config-3.yaml" in page.text
    assert f"lightrl fit --config {folder}/config-3.yaml --ckpt_path null" in page.text


def test_files_of_one_second_are_read_by_their_number_not_as_text(made: Callable[..., Page], tmp_path: Path) -> None:
    folder = tmp_path / "a"
    for number, first, rewards in ((9, 0, [0.0, 0.0, 0.0]), (10, 2, [1.0, 1.0])):
        run(folder, rewards, first=first)
        [file] = folder.glob(f"events.out.tfevents.*.{first}")
        file.rename(folder / f"events.out.tfevents.1700000000.host.7.{number}")
    assert "at the end: A 1 " in made(folder).text


@pytest.mark.parametrize(
    "said", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "![x](http://evil/x.png)", "{{ 7 * 7 }}", "\udc80"]
)
def test_nothing_that_a_model_wrote_becomes_html(said: str, made: Callable[..., Page], tmp_path: Path) -> None:
    shown = said.encode("utf-8", "backslashreplace").decode()
    model = {"algorithm": "GRPO", shown: shown}
    page = made(run(tmp_path / "a<b>", [0.0] * 4, said=shown, model=model))
    assert not page.elements & {"script", "iframe", "object", "link", "a", "form"}
    assert all(value is not None and value.startswith("data:image/svg+xml;base64,") for _, name, value in page.attributes if name == "src")
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name == "style"]
    assert shown in "".join(page.texts)


def test_the_browser_may_load_and_run_nothing(made: Callable[..., Page], tmp_path: Path) -> None:
    page = made(run(tmp_path / "a", [0.0] * 4))
    [policy] = [value for _, name, value in page.attributes if name == "content" and value and "default-src" in value]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    pictures = [base64.b64decode(value.partition(",")[2]).decode() for _, name, value in page.attributes if name == "src" and value]
    assert pictures
    assert not [p for p in pictures if re.search(r"<script|href=\"(?!#|data:)", p)]


def test_the_same_runs_give_the_same_pictures(made: Callable[..., Page], tmp_path: Path) -> None:
    folder = run(tmp_path / "a", [0.0, 1.0, 0.5, 0.5])
    first, second = ([v for _, name, v in made(folder).attributes if name == "src"] for _ in range(2))
    assert first == second


def test_a_folder_without_a_run_is_refused_with_those_inside_it(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    for name in ("version_0", "version_1"):
        run(tmp_path / "runs" / name, [0.0])
    answer = lightrl("report", "runs")
    assert answer.status == 2
    assert "there is no event file of TensorBoard (events.out.tfevents.*), no metrics.csv and no config.yaml" in answer.err
    assert "Inside it there are 2 runs: version_0, version_1." in answer.err
    assert "Type for example: lightrl report runs/version_0 runs/version_1" in answer.err
    assert not (tmp_path / "report.html").exists()


def test_a_folder_that_is_not_there_is_refused_with_the_closest_name(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    run(tmp_path / "runs" / "version_0", [0.0])
    answer = lightrl("report", "runs/verson_0")
    assert answer.status == 2
    assert "'runs/verson_0' does not exist. Did you mean 'version_0'?" in answer.err
    (tmp_path / "empty").mkdir()
    assert "It has: nothing." in lightrl("report", "empty").err


def test_nothing_but_a_report_is_overwritten(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    folder = run(tmp_path / "a", [0.0])
    answer = lightrl("report", str(folder), "--out", str(folder / "config.yaml"))
    assert answer.status == 2
    assert "exists and is no report" in answer.err
    assert yaml.safe_load((folder / "config.yaml").read_text()) == SETTINGS
    assert "there is no folder 'nowhere'" in lightrl("report", str(folder), "--out", "nowhere/x.html").err
    assert "'.' exists and is no report" in lightrl("report", str(folder), "--out", ".").err
    assert [lightrl("report", str(folder)).status for _ in range(2)] == [0, 0]
    assert [p.name for p in tmp_path.glob("report*")] == ["report.html"]


def test_a_page_without_an_ending_gets_the_one_that_a_browser_knows(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    folder = run(tmp_path / "a", [0.0])
    assert [lightrl("report", str(folder), "--out", "page").status for _ in range(2)] == [0, 0]
    assert [p.name for p in tmp_path.glob("page*")] == ["page.html"]


def test_low_a_symbolic_link_is_not_followed(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    folder = run(tmp_path / "run", [0.5])
    (tmp_path / "secret").write_text("password: abc\n")
    (folder / "config.yaml").unlink()
    (folder / "config.yaml").symlink_to(tmp_path / "secret")
    answer = lightrl("report", str(folder), "--out", str(tmp_path / "page.html"))
    assert answer.status == 2
    assert "symbolic link" in answer.err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_low_a_config_that_is_no_file_is_not_waited_for(make: Callable[[Path], None], lightrl: Callable[..., Any], tmp_path: Path) -> None:
    folder = run(tmp_path / "run", [0.5])
    (folder / "config.yaml").unlink()
    make(folder / "config.yaml")
    answer = lightrl("report", str(folder))
    assert answer.status == 2
    assert "config.yaml' is not a config" in answer.err


@pytest.mark.parametrize("damage", [b"\xff\xfe,1,2\n", b"x" * 200_000 + b",1,2\n"])
def test_low_a_table_that_is_damaged_is_read_as_far_as_that(damage: bytes, tmp_path: Path) -> None:
    file = tmp_path / "metrics.csv"
    file.write_bytes(b"reward,step,epoch\n0.5,1,0\n" + damage)
    log = read_table(file)
    assert log.numbers == {"reward": {1: 0.5}}
    assert len(log.damaged) == 1
    file.write_bytes(b"\xff\xfe,step,epoch\n0.5,0,0\n")
    assert not read_table(file).damaged


def test_low_a_config_that_unfolds_without_end_is_refused(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    folder = run(tmp_path / "run", [0.5])
    bomb = ["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{x: *a{i - 1}, y: *a{i - 1}}}" for i in range(1, 41))]
    (folder / "config.yaml").write_text("\n".join(bomb))
    assert lightrl("report", str(folder)).status == 2


@pytest.mark.parametrize("folder", ["/", "/proc/self", "/tmp/" + "x" * 300])
def test_low_a_folder_without_a_run_is_refused(folder: str, lightrl: Callable[..., Any]) -> None:
    answer = lightrl("report", folder)
    assert answer.status == 2
    assert len(answer.lines) <= 3
