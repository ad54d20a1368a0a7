"""`lightrl evaluate` gives the scores of lm-eval by hand, and adds them to the log of a run without harm to its curves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_runs.report.logs import read_events

from lightrl import TinyPolicy

RUN = """
rollouts: 2
trainer: {accelerator: cpu, devices: 1, enable_progress_bar: false}
model:
  policy: {class_path: TinyPolicy, init_args: {hidden: 16, layers: 1}}
  algorithm: {class_path: GRPO, init_args: {kl: null, sampler: {class_path: GroupSampler, init_args: {group_size: 2}}}}
  rewards: {correct: ExactMatch}
  engine: {class_path: TransformersEngine, init_args: {max_new_tokens: 2}}
  prompts_per_rollout: 2
data: {train: {class_path: DigitSorting, init_args: {length: 2, examples: 20}}}
"""
CHOICE = """
task: sorted_choice
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: ["12", "21", "33"]
target_delimiter: ""
doc_to_target: label
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""
WRITTEN = """
task: sorted_written
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: answer
target_delimiter: ""
generation_kwargs: {{until: ["="], max_gen_toks: 3, do_sample: false}}
metric_list: [{{metric: exact_match}}]
"""
TASKS = ["sorted_choice", "sorted_written"]


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two tasks on the rows of one file."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "tasks"
    folder.mkdir()
    rows = [{"question": f"{q}=", "answer": a, "label": i % 3} for i, (q, a) in enumerate([("21", "12"), ("12", "12"), ("33", "33")] * 4)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, text in zip(TASKS, (CHOICE, WRITTEN), strict=True):
        (folder / f"{name}.yaml").write_text(text.format(rows=folder / "rows.jsonl"))
    return folder


@pytest.mark.thorough
@pytest.mark.rare
def test_the_scores_are_those_of_lm_eval_by_hand(lightrl: Callable[..., Any], tasks: Path, tmp_path: Path) -> None:
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.tasks import TaskManager

    torch.manual_seed(3)
    TinyPolicy(hidden=32, layers=2).build().save(tmp_path / "policy")
    answer = lightrl("evaluate", "--policy", "policy", "--tasks", *TASKS, "--include", "tasks", "--trust_tasks", "--out", "scores.json")
    assert answer.status == 0, answer.err
    by_hand = simple_evaluate(
        model="hf", model_args={"pretrained": str(tmp_path / "policy"), "dtype": "float32"}, tasks=TASKS, device="cpu", batch_size=8,
        task_manager=TaskManager(include_path=str(tasks)),
    )  # fmt: skip
    assert by_hand is not None
    found = {(s["task"], s["metric"]): (s["value"], s["stderr"], s["rows"]) for s in json.loads((tmp_path / "scores.json").read_text())}
    wanted = {
        (task, metric): (by_hand["results"][task][f"{metric},none"], by_hand["results"][task][f"{metric}_stderr,none"], 12)
        for task, metric in (("sorted_choice", "acc"), ("sorted_choice", "acc_norm"), ("sorted_written", "exact_match"))
    }
    assert found == wanted
    assert 0 < found["sorted_choice", "acc"][0] < 1


@pytest.mark.thorough
def test_the_scores_of_a_checkpoint_are_in_the_log_of_its_run_beside_its_curves(
    lightrl: Callable[..., Any], tasks: Path, tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_text(RUN)
    assert lightrl("fit", "--config", "run.yaml").status == 0
    run = tmp_path / "runs" / "run" / "version_0"
    rewards = read_events(run).numbers["reward"]
    words = ["--tasks", "sorted_choice", "--include", "tasks", "--trust_tasks", "--limit", "6"]
    answer = lightrl("evaluate", "--config", "run.yaml", "--ckpt_path", "last", *words)
    assert answer.status == 0, answer.err
    log = read_events(run)
    assert log.numbers["evaluate/sorted_choice/acc"].keys() == {2}
    assert log.numbers["reward"] == rewards
    answer = lightrl("evaluate", "--policy", str(tmp_path / "none"), *words)
    assert answer.status == 2
    assert "none" in answer.err
    answer = lightrl("evaluate", "--config", "run.yaml", "--ckpt_path", "last", *words, "--device", "gpu")
    assert answer.status == 2
    assert "--device: 'gpu' cannot be used" in answer.err
    (tasks / "rows.jsonl").rename(tasks / "elsewhere.jsonl")
    answer = lightrl("evaluate", "--config", "run.yaml", "--ckpt_path", "last", *words)
    assert answer.status == 2
    assert "the data of sorted_choice cannot be read: " in answer.err
    words[1] = "sorted_choise"
    answer = lightrl("evaluate", "--config", "run.yaml", "--ckpt_path", "last", *words)
    assert answer.status == 2
    assert "there is no task 'sorted_choise' in lm-eval and tasks. Did you mean 'sorted_choice'?" in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give either --policy or --ckpt_path"),
        (["--policy", "a", "--ckpt_path", "b"], "give either --policy or --ckpt_path"),
        (["--policy", "a", "--include", "tasks"], "--trust_tasks"),
        (["--policy", "a", "--include", "nowhere", "--trust_tasks"], "there is no folder 'nowhere'"),
        (["--policy", "a", "--out", "tasks"], "--out: 'tasks' is there already"),
        (["--policy", "a", "--limit", "0"], "--limit: must be 1 or more, got 0"),
        (["--policy", "a", "--log", "nowhere"], "--log: there is no log of TensorBoard in 'nowhere'"),
        (["--policy", "a", "--model.lr", "1"], "--model.lr: is for --ckpt_path"),
    ],
)
def test_words_that_do_not_fit_each_other_are_refused_before_anything_is_read(
    lightrl: Callable[..., Any], tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "tasks").mkdir()
    answer = lightrl("evaluate", *words, "--tasks", "x")
    assert answer.status == 2
    assert said in answer.err
