"""What lightrl does with other packages, in short: `make stack` runs this against the oldest, the pinned and the newest versions."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_workshop import rollouts_with
from lightrl_workshop.checks.continuations import peaked_policy
from lightrl_workshop.contract_tests import Case, contract_cases, required_arguments
from lightrl_workshop.verbs.config_step import one_step

import lightrl.builtin
from benchmarks import config_file
from lightrl import Prompt, SingleTurn, TinyPolicy
from lightrl.config.build.run import Run
from lightrl.config.merge.resolve import resolve
from lightrl.config.read.settings import read_words
from lightrl.policy.written_model import save_tokenizer

sys.path.insert(0, str(Path(__file__).parents[1] / "rollout"))
from continuous_batching import ContinuousBatchingEngine

pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore")]

KINDS = {
    "GRPO": "grpo_sort", "GRPO with adapters": "grpo_lora_sort", "PPO": "ppo_sort", "DAPO": "dapo_sort", "GSPO": "gspo_sort",
    "environment with tools": "grpo_calculator", "game": "grpo_blackjack", "PPO with a reward model": "ppo_reward_model_sort",
    "mixture of experts": "moe_replay", "distillation": "distill_sort", "rejection sampling": "expert_iteration_sort",
    "DPO": "dpo_sort", "KTO": "kto_sort", "supervised fine-tuning": "sft_sort", "reward model": "reward_model_sort",
}  # fmt: skip
FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "gemma2", "phi3", "gpt2", "qwen3_moe")
PACKAGES = ("torch", "transformers", "lightning", "deepspeed", "peft", "accelerate", "datasets", "tokenizers", "numpy", "jsonargparse")
GIVEN = {"OutcomeShaping": {"limit": 1.0}}
"""Without arguments it is refused."""
QUIET = ["--trainer.accelerator", "cpu", "--trainer.devices", "1", "--trainer.enable_progress_bar", "false"]
REWARD = {"class_path": "Function", "init_args": {"path": "lightrl_workshop.toy.small_digits", "runs": "inline"}}


class Family(TinyPolicy):
    """A tiny policy of some family, with weights that do not depend on the order in which transformers draws them."""

    def __init__(self, family: str) -> None:
        super().__init__(hidden=16, layers=2, heads=2)
        self.family = family

    def config(self) -> Any:
        from transformers import AutoConfig

        sizes = {"num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 32} if self.family != "gpt2" else {}
        sizes |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16} if self.family == "qwen3_moe" else {}
        return AutoConfig.for_model(self.family, **self.sizes(), **sizes)

    def save(self, folder: Path) -> None:
        policy, numbers = self.build(), torch.Generator().manual_seed(0)
        with torch.no_grad():
            for _, weight in sorted(policy.model.named_parameters()):
                if weight.dim() > 1:
                    weight.copy_(torch.randn(weight.shape, generator=numbers) / weight.shape[-1] ** 0.5)
        policy.model.save_pretrained(folder)
        save_tokenizer(policy.tokenizer, folder)


def trained(folder: Path, rollouts: int, **policy: Any) -> Run:
    """A GRPO run of a policy from a folder."""
    model = {
        "policy": {"class_path": "PretrainedPolicy", "init_args": {"path": str(folder), **policy}},
        "algorithm": "GRPO", "rewards": {"small": REWARD}, "engine": {"max_new_tokens": 8}, "prompts_per_rollout": 2,
    }  # fmt: skip
    file = Path("own.yaml")
    file.write_text(json.dumps({"model": model, "data": {"train": {"class_path": "DigitSorting", "init_args": {"examples": 50}}}}))
    run = Run("fit", resolve("fit", read_words(["--config", str(file), "--rollouts", str(rollouts), *QUIET])))
    run.start()
    return run


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_versions(record_testsuite_property: Callable[[str, object], None]) -> None:
    for package in PACKAGES:
        record_testsuite_property(f"version {package}", version(package))


def test_rewards_of_three_rollouts(tmp_path: Path, record_testsuite_property: Callable[[str, object], None]) -> None:
    Family("llama").save(tmp_path / "policy")
    rewards = trained(tmp_path / "policy", 3).model.experience.rewards
    record_testsuite_property("rewards", json.dumps(rewards.double().tolist()))
    assert rewards.std() > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_loaded_and_trained(family: str, tmp_path: Path) -> None:
    Family(family).save(tmp_path / "policy")
    run = trained(tmp_path / "policy", 1, gradient_checkpointing=family in ("llama", "qwen3"))
    assert run.trainer.global_step == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_rollout_and_a_step(kind: str) -> None:
    assert one_step(config_file(KINDS[kind])) >= 1


def test_resumed_and_exported(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert lightrl("fit", "--config", "run.yaml", "--rollouts", "1").status == 0
    again = lightrl("fit", "--config", "run.yaml", "--rollouts", "2", "--ckpt_path", "last")
    assert again.status == 0, again.err
    done = lightrl("export", "--config", "run.yaml", "--ckpt_path", "last", "--out", "out")
    assert done.status == 0, done.err
    ids = AutoTokenizer.from_pretrained(tmp_path / "out")("12", return_tensors="pt").input_ids
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out")(ids).logits.isfinite().all()


def test_an_engine_that_is_not_ours() -> None:
    policy = peaked_policy()
    rollouts = rollouts_with(policy, ContinuousBatchingEngine(8, seed=3), SingleTurn(), version=1)
    try:
        rollout = rollouts.rollout([Prompt(id="0", text="12+3="), Prompt(id="1", text="4=")], 2)
    finally:
        rollouts.close()
    with torch.no_grad():
        ours = policy(rollout.input_ids, rollout.response_mask, rollout.temperature).logprobs
    torch.testing.assert_close(rollout.rollout_logprobs, ours, atol=1e-5, rtol=0)


def first_cases() -> list[Case]:
    """The checks of one class of each kind."""
    chosen: dict[str, type[Any]] = {}
    cases = [case for case in contract_cases(lightrl.builtin, GIVEN) if case.cls.__name__ in GIVEN or not required_arguments(case.cls)]
    for case in cases:
        chosen.setdefault(case.kind, case.cls)
    return [case for case in cases if chosen[case.kind] is case.cls and case.exception is None]


@pytest.mark.parametrize("kind", sorted({case.kind for case in first_cases()}))
def test_contract(kind: str, tmp_path: Path) -> None:
    for number, case in enumerate(case for case in first_cases() if case.kind == kind):
        folder = tmp_path / str(number)
        folder.mkdir()
        case.run(folder)
