"""Whole runs with a reward model: the policy follows it, its state is resumed, and a config can name it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightrl_reward_model import RewardModel, RunningWhitening
from lightrl_workshop import quiet_trainer

from lightrl import DigitSorting, GroupRelative, GroupSampler, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine, ValueModel

SMALL = "01234"


class Witness(Callback):
    """Keeps what each rollout logged."""

    def __init__(self) -> None:
        self.numbers: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.numbers.append({name: float(value) for name, value in trainer.logged_metrics.items()})


def module(reward: RewardModel, rate: float = 1e-3) -> PolicyOptimization:
    return PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4)),
        rewards={"judge": reward},
        engine=TransformersEngine(max_new_tokens=6),
        prompts_per_rollout=16,
        optimizer=lambda p: torch.optim.AdamW(p, lr=rate),
    )


def fit(subject: PolicyOptimization, folder: Path, rollouts: int, *callbacks: Callback, **more: Any) -> list[dict[str, float]]:
    witness = Witness()
    run = quiet_trainer(max_epochs=rollouts, default_root_dir=folder, callbacks=[witness, *callbacks], num_sanity_val_steps=0)
    run.fit(subject, datamodule=PromptData(train=DigitSorting(examples=60)), **more)
    return witness.numbers


def test_the_policy_learns_to_say_what_the_model_likes(likes: Callable[[str], Path], tmp_path: Path) -> None:
    subject = module(RewardModel(str(likes(SMALL)), pooling="mean", whiten=RunningWhitening()), rate=1e-2)
    numbers = fit(subject, tmp_path, 25)
    raw = [of["rewards/judge/raw"] for of in numbers]
    assert max(raw[:2]) < 0.4
    assert min(raw[-2:]) > 0.8
    texts = subject.experience.completions
    shares = [sum(c in SMALL for c in text) / len(text) if text else 0.0 for text in texts]
    assert raw[-1] == pytest.approx(sum(shares) / len(shares), abs=1e-5)
    assert [of["rewards/judge/whitening/mean"] for of in numbers[:2]] == pytest.approx([0.0, raw[0]])
    assert numbers[-1]["rewards/judge/whitening/rows"] == 64
    assert numbers[-1]["rewards/judge/truncated"] == numbers[-1]["rewards/judge/too_long"] == 0


def test_the_model_is_neither_trained_nor_saved(likes: Callable[[str], Path], tmp_path: Path) -> None:
    subject = module(RewardModel(str(likes(SMALL)), pooling="mean"))
    saver = ModelCheckpoint(tmp_path, filename="x")
    fit(subject, tmp_path, 1, saver)
    saved = torch.load(saver.best_model_path, weights_only=True)
    of_policy = {f"policy.{name}" for name in subject.policy.state_dict()}
    assert set(saved["state_dict"]) == of_policy
    assert sum(p.numel() for p in subject.parameters()) == sum(p.numel() for p in subject.policy.parameters())
    assert saved["lightrl"]["rewards"]["rewards"] == {}


def test_a_resumed_run_whitens_as_if_it_had_never_stopped(likes: Callable[[str], Path], tmp_path: Path) -> None:
    path = str(likes(SMALL))

    def make() -> PolicyOptimization:
        return module(RewardModel(path, pooling="mean", whiten=RunningWhitening(decay=0.5), clip=2.0))

    whole, rest = make(), make()
    numbers = fit(whole, tmp_path, 3)
    saver = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, every_n_epochs=1)
    fit(make(), tmp_path, 2, saver)
    resumed = fit(rest, tmp_path, 3, ckpt_path=saver.best_model_path, weights_only=True)
    assert resumed[0]["rewards/judge/whitening/std"] == numbers[2]["rewards/judge/whitening/std"]
    assert resumed[0]["reward"] == numbers[2]["reward"]
    assert whole.collector.rewards.state_dict() == rest.collector.rewards.state_dict()
    assert whole.collector.rewards.state_dict()["rewards"]["judge"]["whitening"][0] == 3 * 64
    for name, value in whole.policy.state_dict().items():
        assert torch.equal(value, rest.policy.state_dict()[name]), name


@pytest.mark.thorough
def test_a_config_names_it_and_fit_resumes_its_state(
    likes: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lightrl.cli import main

    monkeypatch.chdir(tmp_path)
    arguments = {"path": str(likes(SMALL)), "pooling": "mean", "whiten": {"decay": 0.9}, "clip": [-3.0, 5.0], "weight": 2.0}
    config = {
        "rollouts": 1,
        "trainer": {"accelerator": "cpu", "devices": 1, "enable_progress_bar": False, "enable_model_summary": False},
        "model": {
            "policy": {"class_path": "TinyPolicy", "init_args": {"hidden": 16, "layers": 1}},
            "algorithm": "GRPO",
            "rewards": {"judge": {"class_path": "RewardModel", "init_args": arguments}},
            "engine": {"max_new_tokens": 6},
            "prompts_per_rollout": 4,
        },
        "data": {"train": {"class_path": "DigitSorting", "init_args": {"examples": 50}}},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    assert main(["fit", "--config", "run.yaml"]) == 0, capsys.readouterr().err
    assert main(["fit", "--config", "run.yaml", "--rollouts", "2", "--ckpt_path", "last"]) == 0, capsys.readouterr().err
    kept = {
        file.stem: torch.load(file, weights_only=True)["lightrl"]["rewards"]["rewards"]["judge"]["whitening"]
        for file in tmp_path.glob("runs/**/*.ckpt")
    }
    first, second = (next(rows for name, (rows, *_) in kept.items() if name == f"rollout={n}") for n in (1, 2))
    assert second == 2 * first > 0
    written = yaml.safe_load(next(tmp_path.glob("runs/**/version_0/config.yaml")).read_text())
    given = written["model"]["rewards"]["judge"]["init_args"]
    assert {name: given[name] for name in ("clip", "weight", "pooling")} == {"clip": [-3.0, 5.0], "weight": 2.0, "pooling": "mean"}
    assert given["whiten"]["decay"] == 0.9


def test_a_folder_without_a_head_ends_the_run_before_its_first_rollout(folder: Callable[..., Path], tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    path = folder(name="lm")
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=30, **sizes)).save_pretrained(path)
    with pytest.raises(ValueError, match=r"score\.weight"):
        fit(module(RewardModel(str(path))), tmp_path, 1)


def test_the_same_folder_can_start_a_critic(folder: Callable[..., Path], rollout: Callable[..., Any]) -> None:
    """The critic's value after the last token is the reward model's score there."""
    path = folder("llama", template=None)
    policy = TinyPolicy(hidden=16, layers=1, heads=2, alphabet="abcdefghijklmnopqrstuvwxyz12").build()
    assert policy.model.config.vocab_size == json.loads((path / "config.json").read_text())["vocab_size"]
    critic = ValueModel(path=str(path)).build(policy)
    ids = torch.tensor([[2, 6, 7, 8, 9]])
    with torch.no_grad():
        expected = RewardModel(str(path)).score(rollout(("ab", "c"))).value
        # entry t is the value before token t, so the one at the last of five tokens has read four
        found = policy.values(ids, torch.tensor([[False, False, False, False, True]]), critic)[0, -1]
    assert float(found) == pytest.approx(float(expected), abs=1e-5)
