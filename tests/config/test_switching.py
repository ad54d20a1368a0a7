"""Another class over a config that gave the old one arguments: an algorithm keeps what both have, and every key is accounted for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("throwaway")
GRPO_CONFIG = str(Path(__file__).parents[2] / "configs" / "papers" / "grpo.yaml")


def test_switching_the_algorithm_resets_the_slots_that_it_states_and_says_so(resolved: Callable[..., Any]) -> None:
    answer = resolved("--model.algorithm", "Wide")
    assert (answer.at("model.algorithm.clip.low"), answer.at("model.algorithm.clip.high")) == (0.5, 0.6)
    # the sampler is the same in both by default
    assert answer.at("model.algorithm.sampler.group_size") == 4
    assert answer.at("model.algorithm.epochs") == 2
    assert answer.at("model.algorithm.kl") is None
    assert sorted(answer.lines, reverse=True) == [
        "dropped: model.algorithm.clip = SymmetricClip(epsilon=0.1) (run.yaml) was for GRPO; Wide has replaced it",
        "carried: model.algorithm.sampler = GroupSampler(group_size=4) (run.yaml) is in force after the switch from GRPO to Wide",
    ]


def test_what_is_given_after_the_switch_is_carried_and_said(resolved: Callable[..., Any]) -> None:
    answer = resolved("--model.algorithm", "Wide", "--model.algorithm.clip.high", "0.3", "--model.algorithm.epochs", "3")
    assert (answer.at("model.algorithm.clip.low"), answer.at("model.algorithm.clip.high")) == (0.5, 0.3)
    assert answer.at("model.algorithm.epochs") == 3
    carried = [line for line in answer.lines if line.startswith("carried")]
    assert [line.split(" ")[1] for line in carried] == [f"model.algorithm.{name}" for name in ("sampler", "clip", "epochs")]


def test_a_number_given_before_the_switch_is_kept(resolved: Callable[..., Any]) -> None:
    answer = resolved("--model.algorithm.epochs", "3", "--model.algorithm", "Wide")
    assert answer.at("model.algorithm.epochs") == 3
    assert "carried: model.algorithm.epochs = 3 (command line) is in force after the switch from GRPO to Wide" in answer.lines


def test_switching_to_dr_grpo_dropped_group_size_and_the_kl_that_was_switched_off(lightrl: Callable[..., Any]) -> None:
    config = str(Path(GRPO_CONFIG).parents[1] / "tasks" / "grpo_gsm8k_adapters.yaml")
    before = lightrl("fit", "--config", config, "--print_config")
    assert (before.at("model.algorithm.sampler.group_size"), before.at("model.algorithm.kl")) == (8, None)
    words = ["--model.algorithm.sampler.group_size", "6", "--model.algorithm", "DrGRPO", "--print_config"]
    switched = lightrl("fit", "--config", config, *words)
    assert (switched.at("model.algorithm.sampler.group_size"), switched.at("model.algorithm.kl")) == (6, None)
    carried = [line.split(" ")[1] for line in switched.lines if line.startswith("carried")]
    assert carried == ["model.algorithm.sampler", "model.algorithm.kl"]
    assert not [line for line in switched.lines if line.startswith("dropped")]


def test_a_part_in_which_the_algorithms_differ_is_the_new_ones(resolved: Callable[..., Any]) -> None:
    # grpo: sequence means; Dr. GRPO: a constant length, which makes it what it is
    given = ["--model.algorithm.aggregation", "TokenMean", "--model.algorithm.clip", "DecoupledClip"]
    answer = resolved(*given, "--model.algorithm", "DrGRPO")
    assert answer.at("model.algorithm.aggregation.length") == 3000
    assert answer.at("model.algorithm.clip.high") == 0.28
    dropped = [line for line in answer.lines if line.startswith("dropped") and "DrGRPO" in line]
    assert dropped == ["dropped: model.algorithm.aggregation = TokenMean (command line) was for GRPO; DrGRPO has replaced it"]


def test_an_argument_that_the_new_algorithm_has_not_is_dropped(resolved: Callable[..., Any]) -> None:
    answer = resolved("--model.algorithm", "PPO", "--model.algorithm.critic.coefficient", "9", "--model.algorithm", "GRPO")
    assert any(line.startswith("dropped: model.algorithm.critic = ValueHead(coefficient=9.0)") for line in answer.lines), answer.lines


def test_a_later_file_switches_as_the_command_line_does(resolved: Callable[..., Any], write: Callable[..., Any]) -> None:
    write("wide.yaml", {"model": {"algorithm": {"class_path": "Wide", "init_args": {"minibatches": 2}}}})
    answer = resolved("--config", "wide.yaml")
    assert answer.at("model.algorithm.minibatches") == 2
    assert answer.at("model.algorithm.clip.high") == 0.6
    assert len(answer.lines) == 3  # one dropped, two carried


def test_the_same_algorithm_again_keeps_everything(resolved: Callable[..., Any]) -> None:
    answer = resolved("--model.algorithm", "GRPO")
    assert answer.at("model.algorithm.clip.epsilon") == 0.1
    assert answer.err == ""


def test_there_and_back_leaves_the_defaults(resolved: Callable[..., Any]) -> None:
    answer = resolved("--model.algorithm", "Wide", "--model.algorithm", "GRPO")
    assert answer.at("model.algorithm.clip.epsilon") == 0.2


def test_an_argument_alone_changes_the_algorithms_own_part(resolved: Callable[..., Any]) -> None:
    answer = resolved("--model.algorithm", "Narrow", "--model.algorithm.clip.high", "0.3")
    assert (answer.at("model.algorithm.clip.low"), answer.at("model.algorithm.clip.high")) == (0.05, 0.3)


def test_another_part_drops_the_old_parts_arguments(resolved: Callable[..., Any]) -> None:
    answer = resolved("--model.algorithm.clip", "DecoupledClip")
    assert (answer.at("model.algorithm.clip.low"), answer.at("model.algorithm.clip.high")) == (0.2, 0.28)
    assert answer.lines == ["dropped: model.algorithm.clip.epsilon = 0.1 (run.yaml) was for SymmetricClip; DecoupledClip has replaced it"]


def test_a_name_of_two_plugins_is_refused_and_the_distribution_decides(resolved: Callable[..., Any], lightrl: Callable[..., Any]) -> None:
    from lightrl_grpo import GRPO

    from lightrl.registry.classes import registry
    from lightrl.registry.loader import PluginRecord, path_of

    twin = PluginRecord("twin", "lightrl-twin", "0.0", paths={"algorithm": [path_of(GRPO)]})
    registry().records.append(twin)
    try:
        refused = lightrl("fit", "--config", "run.yaml", "--print_config")
        assert refused.status == 2
        assert "Write lightrl-grpo:GRPO or lightrl-twin:GRPO" in refused.err
        chosen = lightrl("fit", "--model.algorithm", "lightrl-twin:GRPO", "--model.algorithm.help")
        assert chosen.status == 0
    finally:
        registry().records.remove(twin)


def test_the_papers_grpo_with_dapo_in_its_place_is_dapo_and_no_mixture(lightrl: Callable[..., Any]) -> None:
    switched = lightrl("fit", "--config", GRPO_CONFIG, "--model.algorithm", "DAPO", "--print_config")
    assert switched.status == 0, switched.err
    # every part and argument is the algorithm's own, as in a config that never spoke of GRPO
    plain = lightrl(
        "fit", "--model.algorithm", "DAPO", "--model.policy", "TinyPolicy", "--model.rewards.correct", "ExactMatch",
        "--data.train", "DigitSorting", "--rollouts", "1", "--print_config",
    )  # fmt: skip
    assert switched.config["model"]["algorithm"] == plain.config["model"]["algorithm"]
    assert switched.at("model.algorithm.kl") is None
    # what is no part of the algorithm stays
    assert switched.at("model.optimizer.lr") == 1e-6
    assert switched.at("model.prompts_per_rollout") == 16
    file = f"({GRPO_CONFIG}) was for GRPO; DAPO has replaced it"
    assert sorted(switched.lines) == [
        f"dropped: model.algorithm.clip = SymmetricClip(epsilon=0.2) {file}",
        f"dropped: model.algorithm.kl = KLPenalty(estimator=k3, loss_coefficient=0.04) {file}",
        f"dropped: model.algorithm.sampler = GroupSampler(group_size=64) {file}",
    ]
