"""What `make bench` runs of lightrl, here with a tiny policy."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_a_run_that_ends_before_it_has_sorted_takes_for_ever() -> None:
    from benchmarks.speed.bench import cost

    def rising_to(reward: float) -> dict[str, list[dict[str, float]]]:
        return {"steps": [{"seconds": 0.5, "reward": r} for r in (0.3, 0.5, *[reward] * 5)]}

    assert cost("sort6", rising_to(0.9)) == 3.5
    assert cost("sort6", rising_to(0.8)) == math.inf


def test_the_peak_of_a_run_is_not_that_of_the_larger_process_that_has_started_it() -> None:
    asked = "from benchmarks.speed.bench_meter import processor_peak; print(processor_peak())"
    starts = f"import subprocess, sys; held = b'x' * 400 * 2**20; subprocess.run([sys.executable, '-c', {asked!r}])"
    found = subprocess.run([sys.executable, "-c", starts], capture_output=True, text=True, check=True)
    assert 0 < float(found.stdout) < 0.2


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["rollouts", "sft", "dpo", pytest.param("reward_model", marks=pytest.mark.rare)])
def test_a_case_is_measured(kind: str, tmp_path: Path) -> None:
    from benchmarks.speed.bench_cases import Examples, Rollouts
    from benchmarks.speed.bench_lightrl import examples_config, rollout_config, run
    from benchmarks.speed.bench_policy import write_examples, write_policy, write_prompts

    policy, data = tmp_path / "policy", tmp_path / "data.jsonl"
    write_policy(policy, "133K", None)
    if kind == "rollouts":
        rollouts = Rollouts("133K", cap=4, mean_length=None, steps=2, prompts=2, group=2)
        write_prompts(data, rollouts)
        config, counted = rollout_config(rollouts, policy, data, tmp_path), 2 * 2 * 4
    else:
        examples = Examples(kind, size="133K", steps=2, batch=2, longest=9)
        write_examples(data, examples)
        config, counted = examples_config(examples, policy, data, tmp_path), 2
    run(Path(sys.executable), config, tmp_path, os.sched_getaffinity(0))
    steps = json.loads((tmp_path / "meter.json").read_text())["steps"]
    assert len(steps) == 2
    for step in steps:
        # the tokens of a text are counted with those of its prompt
        assert step["tokens"] > counted if kind == "sft" else step["tokens"] == counted
        assert step["seconds"] >= step["forward"] + step["backward"] > 0
