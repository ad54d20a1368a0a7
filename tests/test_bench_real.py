"""The cases of `make bench CASE=real`, here with a tiny chat policy, and what is said of the limits of a core."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.speed import core_limits
from benchmarks.speed.bench_cases import REAL, Examples, Rollouts
from benchmarks.speed.bench_lightrl import examples_config, rollout_config, run
from benchmarks.speed.bench_real import questions, texts, write_real_data, write_real_policy
from benchmarks.speed.real import limit_figures, limit_table, training_share
from lightrl import TinyPolicy

ROLLOUT = Rollouts(REAL, cap=4, mean_length=None, steps=1, warm=0, prompts=2, group=4, lora=4)
DPO = Examples("dpo", size=REAL, steps=1, batch=2, prompt_tokens=256, longest=768)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The folder of a tiny policy that answers a user."""
    written = {letter for row in [*questions(), *texts()] for text in row.values() for letter in text}
    built = TinyPolicy(hidden=16, layers=1, heads=2, alphabet="".join(sorted(written | {"|"})), max_positions=1024).build()
    built.tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}|{% endfor %}"
    built.save(tmp_path / "policy")
    return tmp_path / "policy"


def limits(own: float, trl: float) -> dict[str, Any]:
    """Of a round, in which so many tokens a second were decoded."""
    return {
        "best_gflops": 6.0,
        "memory_gb_s": {"read": 4.0, "copy": 5.0},
        "products_gflops": {"1": 2.0},
        "tokens_per_s": {"1": {"trl": trl, "lightrl": own}},
        "prompt_tokens": 3.0,
        "layers": 900_000_000,
        "head": 100_000_000,
    }


def test_questions_and_texts_are_those_of_the_pages() -> None:
    asked, told = questions(), texts()
    assert len({row["prompt"] for row in asked}) == len(asked) > 40
    assert "Explain in one sentence what this word means: Advantage" in {row["prompt"] for row in asked}
    assert len(told) > 8 * 6
    assert all(row["chosen"] == row["completion"] != row["rejected"] for row in told)
    assert sorted(row["chosen"] for row in told) == sorted(row["rejected"] for row in told)


def test_a_file_that_is_not_there_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no GGUF file.*\nType: make bench CASE=real"):
        write_real_policy(tmp_path / "policy", tmp_path / "none.gguf")
    assert not (tmp_path / "policy").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("case", [ROLLOUT, DPO], ids=["rollouts", "dpo"])
@pytest.mark.parametrize("side", ["lightrl", "trl"])
def test_a_case_is_measured_on_both_sides(
    case: Rollouts | Examples, side: str, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, config_of = tmp_path / "data.jsonl", {Rollouts: rollout_config, Examples: examples_config}[type(case)]
    write_real_data(data, case)
    if side == "lightrl":
        run(Path(sys.executable), config_of(case, policy, data, tmp_path), tmp_path, os.sched_getaffinity(0))
    else:
        pytest.importorskip("trl")
        from benchmarks.speed import bench_trl

        # the meter puts its own in their places
        monkeypatch.setattr(torch.optim.AdamW, "step", torch.optim.AdamW.step)
        (bench_trl.run_rollouts if case is ROLLOUT else bench_trl.run_examples)(case, policy, data, tmp_path, 0)
    (step,) = json.loads((tmp_path / "meter.json").read_text())["steps"]
    assert step["tokens"] == 2 if case is DPO else ROLLOUT.rows <= step["tokens"] <= ROLLOUT.rows * ROLLOUT.cap
    assert step["seconds"] >= step["forward"] + step["backward"] > 0


def test_a_core_is_measured_with_a_chat_policy(policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_limits, "LARGE", 1000)
    write_real_data(tmp_path / "data.jsonl", ROLLOUT)
    built = core_limits.PretrainedPolicy(str(policy)).build()
    found = core_limits.measured(built, built, tmp_path / "data.jsonl", 4, 0)
    assert found["prompt_tokens"] > len("Explain in one sentence what this word means: ")
    assert list(found["products_gflops"]) == [1, 8, 32, 512]
    assert all(min(speeds.values()) > 0 for speeds in found["tokens_per_s"].values())


def test_a_matrix_that_two_layers_share_counts_once() -> None:
    layers = torch.nn.ModuleList([torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)])
    layers[1].weight = layers[0].weight
    assert [weight.shape for weight in core_limits.linear_weights(layers)] == [(3, 2)]


def test_the_share_of_training_is_that_of_the_products() -> None:
    steps = [{"tokens": 4.0, "forward": 4.0, "backward": 8.0}, {"tokens": 2.0, "forward": 1.0, "backward": 3.0}]
    # 6 sampled tokens and 2 prompts of 3 in each of 2 steps: 6 x (0.9 x 18 + 0.1 x 6) = 100.8 billion operations at 6 a second, in 16 s
    assert training_share(limits(1, 1), steps, 2) == pytest.approx(100.8 / 6 / 16)


def test_the_tables_have_medians_and_the_least_and_largest() -> None:
    said = limit_figures([limits(4, 2), limits(9, 3), limits(5, 2)], {})
    assert (said["generate_1"], said["spread_generate_1"]) == (2.5, [2.0, 3.0])
    # 2 billion operations a second, and 2 for each of a billion weights and token
    assert "| 1 | 2 | 5 | 2.50 (2.00 to 3.00) | 1.0 |" in limit_table(said)
    assert "training_share" not in said
