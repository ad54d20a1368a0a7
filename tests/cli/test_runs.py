"""Whole runs of a policy with a few thousand parameters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml


def test_fit_resumes_from_last_and_writes_where_it_says(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    assert lightrl("fit", "--config", "run.yaml", "--rollouts", "1").status == 0
    first = tmp_path / "runs" / "run" / "version_0"
    assert yaml.safe_load((first / "config.yaml").read_text())["rollouts"] == 1
    assert lightrl("fit", "--config", "run.yaml", "--rollouts", "3", "--ckpt_path", "last").status == 0
    # one optimizer step per rollout: the resumed run went on where the first had ended
    names = [path.name for path in (tmp_path / "runs" / "run" / "version_0").glob("**/*.ckpt")]
    assert any("rollout=3" in name for name in names), names


def test_a_run_ends_with_what_it_came_to_and_where_it_is(lightrl: Callable[..., Any]) -> None:
    answer = lightrl("fit", "--config", "run.yaml", "--rollouts", "2", "--trainer.check_val_every_n_epoch", "1")
    assert answer.status == 0, answer.err
    end = answer.err[answer.err.rindex("2 rollouts, 2 optimizer steps") :]
    lines = [line.split() for line in end.splitlines()]
    assert ["held", "out", "at", "the", "start", "after", "rollout", "2"] in lines
    (reward,) = [line for line in lines if line[:1] == ["reward"]]
    assert all(0 <= float(number) <= 1 for number in reward[1:])
    assert "Watch: tensorboard --logdir runs/run/version_0" in end


def test_weights_that_learn_are_told_once(lightrl: Callable[..., Any]) -> None:
    said = {}
    for summary in ([], ["--trainer.enable_model_summary", "true"]):
        answer = lightrl("fit", "--config", "run.yaml", "--rollouts", "1", *summary)
        said[bool(summary)] = answer.out + answer.err
    assert ["trainable parameters" in said[False], "FLOPs" in said[False], "FLOPs" in said[True]] == [True, False, True]


def test_help_says_what_the_fields_of_a_record_are(lightrl: Callable[..., Any]) -> None:
    answer = lightrl("fit", "--config", "run.yaml", "--help")
    assert "Completions per prompt, n." in " ".join(answer.out.split())


def test_a_second_run_in_the_same_folder_keeps_the_first_config(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    words = ["fit", "--config", "run.yaml", "--rollouts", "1", "--trainer.logger.version", "0", "--trainer.enable_checkpointing", "false"]
    assert [lightrl(*words).status, lightrl(*words).status, lightrl(*words, "--model.seed", "1").status] == [0, 0, 0]
    written = {
        path.name: yaml.safe_load(path.read_text())["model"]["seed"] for path in (tmp_path / "runs/run/version_0").glob("config*.yaml")
    }
    assert written == {"config.yaml": 0, "config-2.yaml": 1}


def test_predict_writes_one_line_per_completion(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    answer = lightrl("predict", "--config", "run.yaml", "--model.evaluation.samples", "2")
    assert answer.status == 0, answer.err
    (file,) = (tmp_path / "runs").glob("**/completions.jsonl")
    assert f"16 completions: {file.relative_to(tmp_path)}" in answer.out
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(rows) == 16  # 8 validation prompts
    assert {"prompt", "completion", "finish_reason", "tokens"} <= set(rows[0])
    assert all(row["answer"] == "".join(sorted(row["prompt"].rstrip("="))) for row in rows)
    again = lightrl("reward", "test", "--config", "run.yaml", "--data", str(file), "--json")
    assert again.status == 0, again.err
    assert json.loads(again.out)["rows"] == 16


def test_predictions_keep_the_columns_of_their_prompts(lightrl: Callable[..., Any], write: Callable[..., Any], tmp_path: Path) -> None:
    lines = [{"prompt": f"{i}2=", "answer": f"2{i}", "level": i, "completion": "from the data"} for i in range(3, 6)]
    write("asked.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    source = ["--data.test", "JsonLines", "--data.test.path", "asked.jsonl", "--data.test.chat", "false"]
    answer = lightrl("predict", "--config", "run.yaml", *source)
    assert answer.status == 0, answer.err
    (file,) = (tmp_path / "runs").glob("**/completions.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row["prompt"], row["answer"], row["level"]) for row in rows] == [("32=", "23", 3), ("42=", "24", 4), ("52=", "25", 5)]
    assert all(row["completion"] != "from the data" for row in rows)


def test_evaluating_nothing_is_refused(lightrl: Callable[..., Any]) -> None:
    answer = lightrl("test", "--config", "run.yaml")
    assert answer.status == 2
    assert "data.test: there are no test prompts" in answer.err


def test_generate_prints_or_writes_json_lines(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    answer = lightrl("generate", "--policy", "run.yaml", "--prompt", "12=", "--prompt", "34=", "--n", "2")
    assert answer.status == 0, answer.err
    rows = [json.loads(line) for line in answer.out.splitlines()]
    assert [row["prompt"] for row in rows] == ["12=", "12=", "34=", "34="]
    assert all(set(row) == {"prompt", "completion", "finish_reason", "tokens"} and row["tokens"] <= 8 for row in rows)
    written = lightrl("generate", "--policy", "run.yaml", "--prompt", "12=", "--temperature", "0", "--out", "deep/out.jsonl")
    assert "1 completions: deep/out.jsonl" in written.out
    assert len((tmp_path / "deep" / "out.jsonl").read_text().splitlines()) == 1


def test_generate_takes_a_folder_and_a_file_of_prompts(lightrl: Callable[..., Any], write: Callable[..., Any]) -> None:
    from lightrl import TinyPolicy

    TinyPolicy(hidden=16, layers=1).build().save("policy")
    write("prompts.jsonl", '{"prompt": "12="}\n{"prompt": "34="}\n')
    answer = lightrl("generate", "--policy", "policy", "--max_new_tokens", "4", "--prompt", "56=", "--prompts", "prompts.jsonl")
    assert answer.status == 0, answer.err
    assert [json.loads(line)["prompt"] for line in answer.out.splitlines()] == ["56=", "12=", "34="]


def test_generate_keeps_the_columns_of_a_file_so_that_rewards_can_score_it(lightrl: Callable[..., Any], write: Callable[..., Any]) -> None:
    from lightrl import TinyPolicy

    TinyPolicy(hidden=16, layers=1).build().save("policy")
    write("questions.jsonl", '{"question": "12=", "answer": "12", "country": "x"}\n')
    words = ["generate", "--policy", "policy", "--max_new_tokens", "4", "--prompts", "questions.jsonl"]
    written = lightrl(*words, "--prompt-field", "question", "--out", "said.jsonl")
    assert written.status == 0, written.err
    (row,) = [json.loads(line) for line in Path("said.jsonl").read_text().splitlines()]
    assert (row["prompt"], row["answer"], row["country"]) == ("12=", "12", "x")
    scored = lightrl("reward", "test", "--data", "said.jsonl", "--model.rewards.correct", "ExactMatch")
    assert scored.status == 0, scored.err


def test_generate_refuses_prompts_and_a_file_that_is_there_before_it_reads_weights(
    lightrl: Callable[..., Any], write: Callable[..., Any]
) -> None:
    from lightrl import TinyPolicy

    TinyPolicy(hidden=16, layers=1).build().save("policy")
    Path("policy/model.safetensors").unlink()
    write("questions.jsonl", '{"question": "12="}\n')
    answer = lightrl("generate", "--policy", "policy", "--prompts", "questions.jsonl")
    assert answer.status == 2
    assert "no column 'prompt'" in answer.err
    assert "--prompt-field COLUMN" in answer.err
    answer = lightrl("generate", "--policy", "policy", "--prompt", "1", "--out", "questions.jsonl")
    assert (answer.status, "'questions.jsonl' is there already" in answer.err) == (2, True)


def test_explain_finds_what_is_in_the_working_folder(lightrl: Callable[..., Any], write: Callable[..., Any]) -> None:
    write("rewards_of_mine_alone.py", 'def city(completion: str) -> float:\n    """1 for a city."""\n    return 1.0\n')
    answer = lightrl("explain", "rewards_of_mine_alone.city")
    assert answer.status == 0, answer.err
    assert "1 for a city." in answer.out


def test_generate_goes_through_the_chat_template_unless_raw(lightrl: Callable[..., Any], write: Callable[..., Any]) -> None:
    from lightrl import TinyPolicy

    policy = TinyPolicy(hidden=16, layers=1).build()
    policy.tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}={% endfor %}"
    policy.save("policy")
    words = ["generate", "--policy", "policy", "--max_new_tokens", "2", "--prompt", "56"]
    assert json.loads(lightrl(*words).out)["prompt"] == [{"role": "user", "content": "56"}]
    assert json.loads(lightrl(*words, "--raw").out)["prompt"] == "56"


def test_generate_without_policy_or_prompt(lightrl: Callable[..., Any]) -> None:
    assert "no folder 'nowhere'" in lightrl("generate", "--policy", "nowhere", "--prompt", "1=").err
    assert "there is no prompt" in lightrl("generate", "--policy", "run.yaml").err


def test_help_of_a_verb_a_slot_and_a_class(lightrl: Callable[..., Any]) -> None:
    assert "--model.prompts_per_rollout" in lightrl("fit", "--help").out
    assert "DecoupledClip" in lightrl("fit", "--config", "run.yaml", "--model.algorithm.clip.help").out
    arguments = lightrl("fit", "--config", "run.yaml", "--model.algorithm.clip.help", "DecoupledClip").out
    assert "--model.algorithm.clip.high" in arguments
    assert "arXiv:2503.14476" in arguments
