"""A run's log says what the run is made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightrl.callbacks.describe_run import flat


def test_config_and_algorithm_stand_in_tensorboard_and_the_config_in_other_loggers(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "loggers.yaml").write_text(
        yaml.safe_dump(
            {
                "rollouts": 1,
                "trainer": {
                    "enable_checkpointing": False,
                    "logger": [
                        {"class_path": name, "init_args": {"save_dir": "log", "name": name}} for name in ("TensorBoardLogger", "CSVLogger")
                    ],
                },
                "model": {"algorithm": {"class_path": "GRPO", "init_args": {"kl": None}}},
            }
        )
    )
    assert lightrl("fit", "--config", "run.yaml", "--config", "loggers.yaml").status == 0
    events = EventAccumulator(str(tmp_path / "log/TensorBoardLogger/version_0"))
    events.Reload()

    def text(tag: str) -> str:
        [event] = events.Tensors(f"{tag}/text_summary")
        return str(event.tensor_proto.string_val[0].decode())

    config = yaml.safe_load(text("run/config").removeprefix("```yaml\n").removesuffix("\n```"))
    assert config["rollouts"] == 1
    assert config["model"]["prompts_per_rollout"] == 4
    table = {line.split(" | ")[0]: line for line in text("run/algorithm").splitlines() if " | " in line}
    assert "SymmetricClip | epsilon=0.1 |" in table["clip"]
    assert "arXiv:1707.06347" in table["clip"]
    assert table["kl"].startswith("kl | - |")
    assert "custom_scalars__config__" in events.Tags()["tensors"]
    logged = yaml.safe_load((tmp_path / "log/CSVLogger/version_0/hparams.yaml").read_text())
    assert logged["model.algorithm.init_args.clip.init_args.epsilon"] == 0.1


def test_values_stand_under_dotted_keys() -> None:
    assert dict(flat({"a": {"b": 1, "c": {}}, "d": [1, {"e": 2}]})) == {"a.b": 1, "a.c": {}, "d": [1, {"e": 2}]}
