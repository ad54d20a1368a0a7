"""docs/watching.md names every alarm with its limits, every score, and every number that a run logs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import yaml

from lightrl.callbacks.alarms import Alarms
from lightrl.callbacks.dashboard import LAYOUT
from lightrl.callbacks.run_checkpoints import RunCheckpoints
from lightrl.config.build.builder import Builder
from lightrl.config.merge.resolve import resolve
from lightrl.config.read.settings import read_words
from lightrl.ranks import ALONE
from lightrl.training.evaluating.evaluator import Evaluation
from lightrl.training.evaluating.named_metrics import TextMetrics

FOLDER = Path(__file__).parent.parent.parent / "docs"
PAGE = (FOLDER / "watching.md").read_text()


def test_every_alarm_stands_there_with_its_default() -> None:
    rows = {m[1]: m[0] for m in re.finditer(r"^\| `(\w+)` \| .*$", PAGE.partition("## Alarms")[2], re.MULTILINE)}
    assert set(rows) == {alarm.name for alarm in Alarms().alarms}
    defaults = {name: p.default for name, p in inspect.signature(Alarms).parameters.items()}
    shares = {name: defaults[name] for name in ("zero_variance", "entropy_collapse", "truncation", "reward_dominance", "unscored")}
    shares["validation_falls"] = defaults["validation_falls"]
    assert {name: f"{share:.0%}".replace("%", " %") in rows[name] for name, share in shares.items()} == dict.fromkeys(shares, True)
    assert f"{defaults['length_reward']:g}" in rows["length_reward"]
    assert f"above {defaults['kl']:g} nat per token, or `approx_kl` above {defaults['step_kl']:g}" in rows["kl_blow_up"]


def test_its_yaml_is_taken(tmp_path: Path) -> None:
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    evaluation, named = [block["model"]["evaluation"] for block in blocks if "model" in block]
    assert Evaluation(**evaluation).ks == [1, 8, 32]
    (tmp_path / "named.yaml").write_text(yaml.safe_dump({"model": {"evaluation": named}}))
    choice = resolve("fit", read_words(["--config", "grpo_sort", "--config", str(tmp_path / "named.yaml")])).model.value("evaluation")
    metrics = TextMetrics(Builder().build(choice, "model.evaluation").metrics)
    metrics.add([("a b", "a b"), ("a", ["b", "c"])])
    found = metrics.compute(ALONE)
    assert found["metrics/exact"] == found["metrics/rouge/rouge1_fmeasure"] == 0.5
    assert "metrics/chrf" in found
    callbacks = {
        one["class_path"].rpartition(".")[2]: one["init_args"] for b in blocks if "trainer" in b for one in b["trainer"]["callbacks"]
    }
    assert [alarm.name for alarm in Alarms(**callbacks["Alarms"]).alarms] == ["truncation", "first_pass_ratio", "gradient"]
    assert RunCheckpoints(**callbacks["RunCheckpoints"]).every_rollouts == 10


def test_every_plain_number_of_the_dashboard_is_explained() -> None:
    plain = {p for charts in LAYOUT.values() for patterns in charts.values() for p in patterns if re.fullmatch(r"[a-z_/]+", p)}
    others = {"score/mean", "loss", "val/loss", "kl_coefficient", "values/mean", "returns/mean", "sampling/rounds"}
    assert {name for name in plain - others if f"`{name}`" not in PAGE} == set()


def test_its_pictures_are_there_and_modest() -> None:
    pictures = [FOLDER / path for path in re.findall(r"!\[[^]]+\]\((images/[^)]+)\)", PAGE)]
    assert len(pictures) == 2
    assert all(0 < picture.stat().st_size < 150_000 for picture in pictures)
