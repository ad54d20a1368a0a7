"""`lightrl check` shows what would run and trains nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch import Trainer

from lightrl import SymmetricClip
from lightrl.cli.run.check import estimate
from lightrl.strategies.disk import in_words
from lightrl.training.setup.optimizer_checks import planned_steps
from tests.config_kinds import KINDS


def test_check_shows_algorithm_sizes_data_rewards_and_memory(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    answer = lightrl("check", "--config", "run.yaml", "--model.rewards.correct.weight", "0.5")
    assert answer.status == 0, answer.err
    out = re.sub(r"\s+", " ", answer.out)
    for expected in (
        "SymmetricClip",
        "epsilon=0.1",
        "4 x 4 = 16",
        "2 (2 optimizer steps, 32 completions)",
        "weight 0.5",
        "92 prompts",
        "8 prompts",
    ):
        assert expected in out
    assert "train 92 prompts validation 8 prompts" in out
    assert "reference: weights" in out
    assert not (tmp_path / "runs").exists()


def test_check_did_not_say_what_a_checkpoint_costs_on_disk(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    words = ["--config", "run.yaml", "--trainer.check_val_every_n_epoch", "2", "--model.policy.hidden", "64", "--model.policy.heads", "2"]
    said = re.sub(r"\s+", " ", lightrl("check", *words).out)
    each, kept = re.search(r"each, about (\S+) KiB", said), re.search(r"kept the last 2 and the best: (\S+) MiB at most", said)
    assert each is not None, said
    assert kept is not None, said
    assert 1024 * float(kept[1]) == pytest.approx(3 * float(each[1]), rel=0.01)
    assert lightrl("fit", *words).status == 0
    (file,) = tmp_path.rglob("checkpoints/rollout=2.ckpt")
    assert file.stat().st_size / 1024 == pytest.approx(float(each[1]), rel=0.2)


def test_check_says_how_checkpoints_become_smaller_and_where_there_are_none(lightrl: Callable[..., Any], write: Callable[..., Any]) -> None:
    saver = {"class_path": "RunCheckpoints", "init_args": {"keep": 1, "save_weights_only": True}}
    write("light.yaml", {"trainer": {"callbacks": [saver]}})
    full = re.sub(r"\s+", " ", lightrl("check", "--config", "run.yaml").out)
    assert "RunCheckpoints among trainer.callbacks leaves out with save_weights_only: true" in full
    light = re.sub(r"\s+", " ", lightrl("check", "--config", "run.yaml", "--config", "light.yaml").out)
    assert "kept the last 1 and the best" in light
    assert "no run goes on from it" in light
    own = lightrl("check", "--config", "run.yaml", "--trainer.callbacks", "ModelCheckpoint").out
    assert "as ModelCheckpoint says: save_top_k 1" in own
    assert "none is written" in lightrl("check", "--config", "run.yaml", "--trainer.enable_checkpointing", "false").out


def test_check_warns_of_a_run_that_cannot_teach(lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any]) -> None:
    # the README's own first command once trained three rollouts at 1e-6
    few = lightrl("check", "--config", "run.yaml", "--rollouts", "3", "--model.optimizer.lr", "1e-6").out
    assert "too little: 3 rollouts" in few
    assert "a rate of 1e-06 moves a weight by about 3e-06 in 3 optimizer steps" in few
    assert "--model.optimizer.lr 1e-05" in few
    assert "too little" not in lightrl("check", "--config", "run.yaml", "--rollouts", "100", "--model.optimizer.lr", "1e-6").out
    cycle = {"class_path": "torch.optim.lr_scheduler.OneCycleLR", "init_args": {"max_lr": 1e-8, "total_steps": 100}}
    write("cycle.yaml", {"model": {"lr_scheduler": cycle}})
    slow = lightrl("check", "--config", "run.yaml", "--config", "cycle.yaml", "--rollouts", "100").out
    assert "--model.lr_scheduler.max_lr 1e-05, or give more --rollouts" in slow
    model = {"class_path": "SupervisedFineTuning", "init_args": {"policy": config["model"]["policy"]}}
    write("sft.yaml", {"model": model, "data": config["data"], "trainer": config["trainer"] | {"max_steps": 3}})
    tuned = lightrl("check", "--config", "sft.yaml", "--model.optimizer.lr", "1e-7").out
    assert "in 3 optimizer steps" in tuned
    assert "or give more --trainer.max_steps" in tuned


def test_check_does_not_say_all_at_once_where_fit_chooses(lightrl: Callable[..., Any]) -> None:
    assert "all at once" not in lightrl("check", "--config", "run.yaml", "--model.micro_batch_tokens", "auto").out
    assert "all at once" in lightrl("check", "--config", "run.yaml", "--model.micro_batch_tokens", "null").out


def test_no_reference_where_no_part_needs_one(lightrl: Callable[..., Any]) -> None:
    answer = lightrl("check", "--config", "run.yaml", "--model.algorithm.kl", "null")
    assert "reference: weights" not in answer.out


def test_check_says_what_a_class_does_not_keep(lightrl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SymmetricClip, "exceptions", {"repr() names the class": "it is short"})
    answer = lightrl("check", "--config", "run.yaml")
    assert answer.status == 0, answer.err
    assert "SymmetricClip does not keep a check of its contract, 'repr() names the class': it is short\n" in answer.out


def test_check_refuses_what_fit_refuses(lightrl: Callable[..., Any]) -> None:
    answer = lightrl("check", "--config", "run.yaml", "--model.policy", "PretrainedPolicy", "--model.policy.path", "./no")
    assert answer.status == 2
    assert "model.policy: there is no folder './no'" in answer.err


def test_check_of_supervised_training(lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any]) -> None:
    model = {"class_path": "SupervisedFineTuning", "init_args": {"policy": config["model"]["policy"]}}
    write("sft.yaml", {"model": model, "data": config["data"], "trainer": config["trainer"] | {"max_steps": 3}})
    answer = lightrl("check", "--config", "sft.yaml", "--model.batch_size", "46")
    assert answer.status == 0, answer.err
    assert "SupervisedFineTuning" in answer.out
    assert "optimizer steps 3 (1.5 passes over the data)" in re.sub(r"\s+", " ", answer.out)


def test_check_counts_the_reference_of_an_objective(lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any]) -> None:
    model = {"class_path": "PreferenceOptimization", "init_args": {"policy": config["model"]["policy"], "objective": "DPO"}}
    pairs = {"train": {"class_path": "SortedPairs", "init_args": {"length": 3, "examples": 50}}}
    write("dpo.yaml", {"model": model, "data": pairs, "trainer": config["trainer"] | {"max_steps": 3}})
    assert "reference: weights" in lightrl("check", "--config", "dpo.yaml").out
    assert "reference: weights" not in lightrl("check", "--config", "dpo.yaml", "--model.objective", "SimPO").out


def test_rollouts_are_refused_where_there_are_none(lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any]) -> None:
    model = {"class_path": "SupervisedFineTuning", "init_args": {"policy": config["model"]["policy"]}}
    write("sft.yaml", {"model": model, "data": config["data"], "trainer": config["trainer"]})
    answer = lightrl("fit", "--config", "sft.yaml", "--rollouts", "3")
    assert answer.status == 2
    assert "rollouts: SupervisedFineTuning learns from given rows and makes none." in answer.err
    assert "Type: --trainer.max_steps N" in answer.err


def test_check_compares_rewards_with_columns(lightrl: Callable[..., Any], write: Callable[..., Any]) -> None:
    write("wanting.py", "def level(completion, level):\n    return float(level)\n")
    answer = lightrl("check", "--config", "run.yaml", "--model.rewards.level", "wanting.level")
    assert answer.status == 2
    assert "wants the argument 'level', which is neither prompt, completion, answer nor a column" in answer.err


SORTING = [file.stem for file in sorted((Path(__file__).parents[2] / "configs").rglob("*_sort.yaml"))]


@pytest.mark.parametrize("name", [name if name in KINDS else pytest.param(name, marks=pytest.mark.thorough) for name in SORTING])
def test_every_config_that_reads_no_file_can_be_checked(lightrl: Callable[..., Any], name: str) -> None:
    folders = [] if name in ("sft_sort", "reward_model_sort") else ["--model.policy", "TinyPolicy"]
    folders += ["--data.train.source.examples" if name in ("kto_sort", "bco_sort", "dro_offline_sort") else "--data.train.examples", "2000"]
    folders += (
        ["--model.rewards.learned=null", "--model.rewards.correct.weight=1", "--model.algorithm.critic.path=null"]
        if name == "ppo_reward_model_sort"
        else []
    )
    folders += ["--model.algorithm.teacher.policy", "TinyPolicy"] if name in ("distill_sort", "gkd_sort") else []
    answer = lightrl("check", "--config", name, *folders)
    assert answer.status == 0, answer.err


def test_check_knows_a_schedule_with_a_rate_per_group(lightrl: Callable[..., Any], write: Callable[..., Any]) -> None:
    # two rollouts of PPO make eight steps
    cycle = {"class_path": "torch.optim.lr_scheduler.OneCycleLR", "init_args": {"max_lr": [1e-3, 2e-3], "total_steps": 8}}
    write("rates.yaml", {"model": {"algorithm": {"class_path": "PPO"}, "lr_scheduler": cycle}})
    answer = lightrl("check", "--config", "run.yaml", "--config", "rates.yaml")
    assert answer.status == 0, answer.err


def test_check_refuses_a_schedule_that_is_shorter_than_the_run(
    lightrl: Callable[..., Any], write: Callable[..., Any], config: dict[str, Any]
) -> None:
    one_cycle = {"class_path": "torch.optim.lr_scheduler.OneCycleLR", "init_args": {"max_lr": 1e-3, "total_steps": 3}}
    write("short.yaml", {"rollouts": 4, "model": {"lr_scheduler": one_cycle}})
    answer = lightrl("check", "--config", "run.yaml", "--config", "short.yaml")
    assert answer.status == 2
    assert "total_steps is 3, and the run makes up to 4 optimizer steps" in answer.err
    assert lightrl("check", "--config", "run.yaml", "--config", "short.yaml", "--rollouts", "3").status == 0
    shorter = lightrl("check", "--config", "run.yaml", "--config", "short.yaml", "--rollouts", "2")
    assert "3 steps, of which the run makes 2: the rate does not reach its end" in re.sub(r"\s+", " ", shorter.out)


def test_the_planned_steps_of_a_run_without_an_end_are_those_of_lightnings_thousand_epochs() -> None:
    """Fuzzing found that `check` took a schedule of 1000 steps for such a run, and `fit` refused it."""

    def planned(**limits: Any) -> float:
        return planned_steps(Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, **limits), batches=15, per_batch=2)

    assert planned() == 30_000
    assert planned(max_epochs=3) == 90
    assert planned(max_steps=20) == planned(max_steps=20, max_epochs=3) == 20
    assert planned(max_epochs=-1) == planned(max_time="00:00:01:00") == math.inf


@pytest.mark.parametrize(
    ("dtype", "optimizer", "momentum", "reference", "total"),
    [
        ("float32", "AdamW", 0.0, False, 16_000),  # weights, gradients, two moments
        ("bfloat16", "AdamW", 0.0, True, 20_000),  # gradients, copies and moments are in float32
        ("float32", "SGD", 0.0, False, 8_000),
        ("float32", "SGD", 0.9, True, 16_000),
    ],
)
def test_memory_by_hand(dtype: str, optimizer: str, momentum: float, reference: bool, total: int) -> None:
    assert sum(size for _, size in estimate(1000, 1000, dtype, optimizer, momentum, reference).values()) == total


def test_sizes_in_words() -> None:
    assert [in_words(n) for n in (512, 2048, 3 * 1024**3)] == ["512 B", "2 KiB", "3 GiB"]


UNSENDABLE = """
import threading
from lightrl import RowReward

class Holds(RowReward):
    '''Keeps a lock.'''

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def score(self, prompt: object, completion: str) -> float:
        return 1.0
"""

REFUSED = [
    (
        "two rewards, and nothing says which decides",
        ["--model.algorithm.sampler", "DynamicSampler", "--model.rewards.two", "ExactMatch"],
        "type --model.algorithm.sampler.metric correct",
    ),
    ("precision against dtype", ["--trainer.precision", "bf16-true"], "--model.policy.dtype bfloat16"),
    ("positions against limits", ["--model.policy.max_positions", "8"], "set it below 8"),
    ("no checkpoint", ["--ckpt_path", "nowhere.ckpt"], "there is no checkpoint 'nowhere.ckpt'"),
    ("a reward that no worker can have", ["--model.rewards.holds", "unsendable.Holds"], "cannot be sent to a worker process"),
    ("a logger that is not installed", ["--trainer.logger", "CometLogger"], "comet"),
    ("a folder that cannot be made", ["--trainer.default_root_dir", "/proc/nowhere"], "Give a place where you may write"),
]


@pytest.mark.parametrize(("words", "expected"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_check_and_fit_refuse_the_same(
    words: list[str], expected: str, lightrl: Callable[..., Any], write: Callable[..., Path], tmp_path: Path
) -> None:
    write("unsendable.py", UNSENDABLE)
    answers = [lightrl(verb, "--config", "run.yaml", *words) for verb in ("check", "fit")]
    for answer in answers:
        assert answer.status != 0
        assert expected in answer.err, answer.err
        assert "Traceback" not in answer.err
    assert answers[0].lines[-1] == answers[1].lines[-1]
    assert not list(tmp_path.rglob("*.ckpt"))


def test_check_compares_a_checkpoint_with_the_policy(lightrl: Callable[..., Any]) -> None:
    assert lightrl("fit", "--config", "run.yaml", "--rollouts", "1").status == 0
    again = ["--config", "run.yaml", "--ckpt_path", "last"]
    assert lightrl("check", *again).status == 0
    answers = [lightrl(verb, *again, "--model.policy.hidden", "32") for verb in ("check", "fit")]
    assert [answer.status for answer in answers] == [2, 2]
    assert answers[0].lines[-2:] == answers[1].lines[-2:]
    assert "is of another model" in answers[0].err


def test_a_metric_that_nobody_logs_ends_in_plain_lines(lightrl: Callable[..., Any]) -> None:
    stopping = ["--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor", "val/nothing"]
    answer = lightrl("fit", "--config", "run.yaml", *stopping)
    assert answer.status == 2
    assert answer.lines[-1].startswith("trainer.callbacks: Early stopping conditioned on metric `val/nothing`")
