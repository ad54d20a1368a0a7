"""`make bench CASE=curves`: the area under a curve, when two sides are alike, what its plan says, and that its runs are configs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.evidence import curves
from lightrl import TinyPolicy
from lightrl.config.merge.resolve import resolve
from lightrl.config.read.settings import read_words

ROOT = Path(__file__).parents[1]


def test_the_area_is_that_of_trapezoids_beside_the_width() -> None:
    # (1 + 3) / 2 * 2 + (3 + 3) / 2 * 6 = 22, over a width of 8
    assert curves.area([(0, 1.0), (2, 3.0), (8, 3.0)]) == 2.75


@pytest.mark.parametrize(
    ("own", "word"),
    [
        ([1.01, 0.99, 1.0], "alike"),
        ([1.11, 1.09, 1.1], "different"),
        ([1.3, 0.7, 1.0], "too wide"),
        ([1.0, 1.0, 1.0], "alike"),  # to the bit
    ],
)
def test_two_sides_are_alike_if_the_interval_contains_0_and_is_narrow(own: list[float], word: str) -> None:
    assert curves.agreement(own, [1.0, 1.0, 1.0]).word == word


def test_the_interval_is_paired_and_that_of_student() -> None:
    # differences 0.2, 0.3 and 0.25: deviation 0.05, t(0.975, 2) = 4.3027, half 4.3027 * 0.05 / sqrt(3) = 0.12421
    found = curves.agreement([1.2, 5.3, 9.25], [1.0, 5.0, 9.0])
    assert found.difference == pytest.approx(0.25)
    assert found.half == pytest.approx(0.12421, abs=1e-5)


def test_a_run_that_is_complete_is_not_repeated(tmp_path: Path) -> None:
    done = curves.run_folder(tmp_path, "sft", "trl", 2)
    done.mkdir(parents=True)
    (done / curves.WRITTEN).write_text("{}")
    jobs = curves.missing(["sft", "dpo"], tmp_path)
    assert {(job.side, job.seed): job.methods for job in jobs}["trl", 2] == ("dpo",)
    assert "sft (5 seeds), dpo (5 seeds): 20 runs of lightrl and of TRL, of which 1 are complete" in curves.plan(
        ["sft", "dpo"], jobs, tmp_path, 2
    )


def test_the_plan_knows_how_long_every_method_takes(tmp_path: Path) -> None:
    planned = 2 * sum(method.seeds for method in curves.METHODS.values())
    assert f"{planned} runs of lightrl and of TRL, of which 0" in curves.plan(
        curves.METHODS, curves.missing(curves.METHODS, tmp_path), tmp_path, 2
    )


@pytest.mark.parametrize(
    "name",
    [
        "grpo", "rloo", "grpo_whole_groups", "grpo_one_step", "grpo_same_completions", "dpo", "reward_model", "sft",
    ],
)  # fmt: skip
def test_every_method_is_a_config_of_lightrl(name: str, tmp_path: Path) -> None:
    from benchmarks.evidence import curve_data, curve_lightrl

    curve_data.write_rows(tmp_path, 1)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(curve_lightrl.config(curves.METHODS[name], tmp_path, 1, tmp_path)))
    found = resolve("fit", read_words(["--config", str(file)]))
    assert found.model.value("optimizer").value("lr") == curves.METHODS[name].rate
    assert found.data.value("shuffle") is False


def test_no_prompt_is_held_out_and_learnt_from_and_wrong_answers_are_wrong(tmp_path: Path) -> None:
    from benchmarks.evidence import curve_data

    curve_data.write_rows(tmp_path, 1)
    train, held_out = ([json.loads(line) for line in (tmp_path / f"{n}.jsonl").read_text().splitlines()] for n in ("train", "held_out"))
    assert len({row["prompt"] for row in train + held_out}) == len(train) + len(held_out)
    assert all(row["answer"] == row["chosen"] == "".join(sorted(row["prompt"][:-1])) != row["rejected"] for row in train)


def test_a_start_that_was_stopped_after_its_policy_is_completed(tmp_path: Path) -> None:
    from benchmarks.evidence import curve_data

    heads = {}
    for seed, name in ((1, "whole"), (1, "stopped"), (2, "other")):
        TinyPolicy(hidden=16, layers=1, heads=2).build().save(tmp_path / name / "sft" / "version_0" / "policy")
        if name == "stopped":
            (tmp_path / name / "policy").symlink_to(tmp_path / "gone")
        curve_data.complete_start(tmp_path / name, seed)
        heads[name] = (tmp_path / name / "reward_model" / "model.safetensors").read_bytes()
        assert (tmp_path / name / curve_data.DONE).exists()
        assert (tmp_path / name / "policy").resolve() == tmp_path / name / "sft" / "version_0" / "policy"
    assert heads["whole"] == heads["stopped"] != heads["other"]


def test_the_rows_are_enough_for_every_run() -> None:
    from benchmarks.evidence import curve_cases

    for method in curve_cases.METHODS.values():
        rounds = (method.rollouts, method.prompts) if isinstance(method, curve_cases.Online) else (method.steps, method.batch)
        assert rounds[0] * rounds[1] <= curve_cases.TRAIN


def test_the_page_says_first_what_did_not_hold() -> None:
    from benchmarks.evidence import curve_page

    alike, other = curves.agreement([1.0] * 5, [1.0] * 5), curves.agreement([1.2, 1.3, 1.2, 1.3, 1.2], [1.0] * 5)
    page = curve_page.page({("sft", "loss"): alike, ("dpo", "margin"): other}, {})
    assert "does not contain 0 for: DPO (margin). Not run: GRPO; RLOO; GRPO, whole groups;" in page
    assert "Fewer seeds than planned: DPO." in curve_page.page({("dpo", "margin"): curves.agreement([1.0, 1.1], [1.0, 1.1])}, {})
    assert page.index("| **different** | DPO") < page.index("| **alike** | supervised")


def test_the_page_names_the_cause_of_a_difference_and_what_removes_it() -> None:
    from benchmarks.evidence import curve_page

    alike, other = curves.agreement([1.0] * 5, [1.0] * 5), curves.agreement([1.2, 1.3, 1.2, 1.3, 1.2], [1.0] * 5)
    page = curve_page.page({("grpo", "reward"): other, ("grpo_one_step", "reward"): alike}, {})
    assert (
        "take it away:\n\n- With one step per rollout the difference is +0 (+0 to +0, 5 seeds): alike.\n\nThe first difference lies outside"
        in page
    )
    wide = curves.agreement([1.4, 0.6, 1.3, 1.0, 1.0], [1.0] * 5)
    assert "this cause is not proved" in curve_page.page({("grpo", "reward"): other, ("grpo_one_step", "reward"): wide}, {})
    assert "With one step" not in curve_page.page({("grpo", "reward"): alike, ("grpo_one_step", "reward"): alike}, {})


def test_the_page_says_what_the_same_completions_show() -> None:
    from benchmarks.evidence import curve_page

    norms, errors = [1.0, 1.2, 1.1, 1.3, 1.2], [1.0, -2.0, 0.5, 3.0, 1.5]
    close, far = (curves.agreement([a + scale * b for a, b in zip(norms, errors, strict=True)], norms) for scale in (1e-7, 1e-3))
    assert "the steps of both are the same" in curve_page.page({curve_page.REPLAYED: close}, {})
    assert "the steps of both differ too" in curve_page.page({curve_page.REPLAYED: far}, {})


def test_recorded_completions_are_given_in_order_and_never_to_another_number_of_requests(tmp_path: Path) -> None:
    from benchmarks.evidence.recorded_engine import RecordedEngine
    from lightrl.parts.engine import Request

    (tmp_path / "sampled.json").write_text(json.dumps([[[4, 5], [6, 1]], [[7]]]))
    engine = RecordedEngine(str(tmp_path / "sampled.json"))
    engine.start()
    requests = [Request(number, [3], 8, engine.sampling, frozenset({1}), 0, number) for number in range(2)]
    engine.submit(requests)
    assert [(one.id, one.tokens, one.finish_reason) for one in engine.results()] == [(0, [4, 5], "length"), (1, [6, 1], "stop")]
    with pytest.raises(ValueError, match="the next rollout has 1 completions, and 2 are asked for"):
        engine.submit(requests)


def test_the_page_is_the_one_that_the_command_writes() -> None:
    from benchmarks.evidence import curve_page

    page = (ROOT / "docs" / "curves.md").read_text()
    assert curve_page.page({}, {}).partition("## What is the same")[2].partition("| task |")[0] in page
