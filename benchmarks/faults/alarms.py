"""Ten runs with one fault each must raise their alarm, and ten healthy runs none: `make bench CASE=alarms`.

All runs start from one policy, which sft_sort.yaml trains. Each fault is a change to grpo_sort.yaml. The healthy runs are
the unchanged sorting configs of ten other algorithms. The table is also written as results.json in the output folder.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks import config_file
from lightrl.callbacks.alarms import Alarms
from lightrl.config.build.run import Run
from lightrl.config.merge.resolve import resolve
from lightrl.config.read.settings import read_words

HEALTHY = ["cispo", "dapo", "dr_grpo", "gmpo", "gpg", "gspo", "lite_ppo", "ppo", "rloo", "sapo"]


def function(name: str, **settings: Any) -> dict[str, Any]:
    """A reward of benchmarks/faults/alarm_faults.py."""
    return {"class_path": "Function", "init_args": {"path": f"benchmarks.faults.alarm_faults.{name}", "runs": "inline", **settings}}


FAULTS: dict[str, dict[str, Any]] = {
    "zero_variance": {"rewards": {"correct": function("constant")}},
    "entropy_collapse": {
        "algorithm": {"minibatches": 4, "entropy": {"class_path": "EntropyBonus", "init_args": {"coefficient": -1.0}}},
        "lr_scheduler": None,
    },
    "kl_blow_up": {"algorithm": {"epochs": 8}, "optimizer": {"lr": 0.004}, "lr_scheduler": None},
    "truncation": {"engine": {"max_new_tokens": 6}},
    "first_pass_ratio": {"engine": {"class_path": "benchmarks.faults.alarm_faults.StaleEngine", "init_args": {"max_new_tokens": 8}}},
    "reward_dominance": {"rewards": {"correct": {"class_path": "ExactMatch", "init_args": {"weight": 0.02}}, "close": function("close")}},
    "validation_falls": {
        "rewards": {"wrong": function("wrong"), "correct": {"class_path": "ExactMatch", "init_args": {"weight": 0.0}}},
        "evaluation": {"correct": "correct"},
    },
    "length_reward": {"rewards": {"correct": function("short")}},
    "unscored": {"rewards": {"correct": function("failing", max_error_rate=1.0)}},
    "gradient": {"algorithm": {"clip": {"class_path": "benchmarks.faults.alarm_faults.SpikingClip"}}},
}
"""By the alarm that is to be raised: the change to `model` of grpo_sort.yaml."""


def main() -> int:
    """Run what was asked for; 1 if an alarm was missing or raised without a reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*FAULTS, *HEALTHY], default=[*FAULTS, *HEALTHY], metavar="NAME")
    parser.add_argument("--rollouts", type=int, default=40, help="of each run")
    parser.add_argument("--policy", type=Path, help="a warm-started policy, in place of training one")
    parser.add_argument("--out", type=Path, default=Path("runs/alarms"), help="folder for logs and results")
    arguments = parser.parse_args()
    policy = arguments.policy or warm_start(arguments.out)
    results: dict[str, dict[str, int]] = {}
    for name in arguments.only:
        results[name] = train(name, policy, arguments.rollouts, arguments.out)
        print(f"{'fault' if name in FAULTS else 'healthy':<8}{name:<20}{shown(results[name])}", flush=True)
    return report(results, arguments.out)


def warm_start(out: Path) -> Path:
    """Folder of a policy that supervised fine-tuning has brought to a start."""
    run = fit(["--config", str(config_file("sft_sort"))], {}, out / "sft")
    return Path(run.log_dir) / "policy"


def train(name: str, policy: Path, rollouts: int, out: Path) -> dict[str, int]:
    """Carry out one run; the alarms it raised, each with the rollout that raised it first."""
    config = config_file("grpo_sort" if name in FAULTS else f"{name}_sort")
    changes = {
        "model": FAULTS.get(name, {}),
        "rollouts": rollouts,
        "trainer": {"check_val_every_n_epoch": 5},
        "data": {"validation_size": 256},
    }
    heard = Heard(name)
    fit(["--config", str(config), f"--model.policy.path={policy}"], changes, out / name, heard)
    return heard.first


class Heard(Alarms):
    """The alarms of every run, and which of them came when; the one that is waited for ends the run, before what it leads to."""

    def __init__(self, awaited: str) -> None:
        """
        Args:
            awaited: name of an alarm, or of none.
        """
        super().__init__()
        self.awaited = awaited
        self.first: dict[str, int] = {}

    def check(self, trainer: Any) -> None:
        """Note what was raised."""
        super().check(trainer)
        for name in self.raised:
            self.first.setdefault(name, self.history.count)
        trainer.should_stop |= self.awaited in self.raised


def fit(words: list[str], changes: Mapping[str, Any], out: Path, *callbacks: Any) -> Any:
    """A run in this process, with changes on top of its config and with further callbacks; its trainer."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "changes.yaml"
    file.write_text(yaml.safe_dump(dict(changes)))
    logger = ["--trainer.logger=TensorBoardLogger", f"--trainer.logger.save_dir={out.parent}", f"--trainer.logger.name={out.name}"]
    words = [words[0], words[1], "--config", str(file), *words[2:], *logger, "--trainer.enable_progress_bar=false"]
    run = Run("fit", resolve("fit", read_words(words)))
    run.trainer.callbacks = [c for c in run.trainer.callbacks if not (callbacks and isinstance(c, Alarms))] + list(callbacks)
    run.start()
    return run.trainer


def shown(raised: Mapping[str, int]) -> str:
    """Alarms and when they came."""
    return ", ".join(f"{name} at rollout {rollout}" for name, rollout in raised.items()) or "-"


def report(results: Mapping[str, Mapping[str, int]], out: Path) -> int:
    """Print what was missing or came without a reason, write the results, and return the exit status."""
    missing = [name for name, raised in results.items() if name in FAULTS and name not in raised]
    false = [name for name, raised in results.items() if name not in FAULTS and raised]
    others = {name: sorted(set(raised) - {name}) for name, raised in results.items() if name in FAULTS and set(raised) - {name}}
    faults = sum(name in FAULTS for name in results)
    print(f"\n{faults - len(missing)} of {faults} faults raised their alarm; {len(others)} raised another one too: {others or '-'}")
    print(f"{len(results) - faults - len(false)} of {len(results) - faults} healthy runs raised none")
    file = out / "results.json"
    file.write_text(json.dumps(results, indent=2) + "\n")
    print(f"Written: {file}")
    return int(bool(missing or false))


if __name__ == "__main__":
    sys.exit(main())
