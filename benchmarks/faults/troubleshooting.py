"""Trains a healthy run and one for each fault of docs/troubleshooting.md, and writes the page's tables and picture.

`python -m benchmarks.faults.troubleshooting`, or `make bench CASE=troubleshooting`. All runs start from one policy, which sft_sort.yaml
trains, and each fault is a change to grpo_sort.yaml. A run that is complete in the output folder is not repeated.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from lightrl_runs.report.logs import Series
from lightrl_runs.report.run_folder import read_run

from benchmarks import ROOT, config_file
from benchmarks.faults.alarms import FAULTS, Heard, fit, function, shown, warm_start

DOCS = ROOT / "docs"
PAGE, PICTURE = DOCS / "troubleshooting.md", DOCS / "images" / "troubleshooting.png"
ROLLOUTS = 60
AVERAGED = 5
"""Rollouts at the start and at the end whose mean is shown."""
KL = {"class_path": "KLPenalty", "init_args": {"estimator": "k3", "loss_coefficient": 0.0001}}


@dataclass(frozen=True)
class Fault:
    """An entry of the page."""

    title: str
    """Of its panel."""
    changes: dict[str, Any]
    """To `model` of grpo_sort.yaml."""
    numbers: tuple[str, ...]
    """To look at, in this order; the first one is drawn."""
    against: str = "healthy"
    """The run beside which it is shown."""


ENTRIES = {
    "no_rise": Fault(
        "the reward does not rise",
        {"optimizer": {"lr": 1e-6}, "lr_scheduler": None},
        ("reward", "frac_reward_zero_std", "grad_norm", "lr", "entropy_estimate"),
    ),
    "rise_and_fall": Fault(
        "the reward rose and fell",
        {"lr_scheduler": {"max_lr": 0.005, "total_steps": ROLLOUTS, "pct_start": 0.95}},
        ("reward", "val/reward", "entropy_estimate", "completions/clipped_ratio", "grad_norm", "lr"),
    ),
    "kl": Fault(
        "KL explodes",
        {"algorithm": {"epochs": 8, "kl": KL}, "optimizer": {"lr": 0.004}, "lr_scheduler": None},
        ("kl", "ratio/first_pass_deviation", "approx_kl", "clip_ratio/region", "ratio/max", "reward"),
        against="healthy_kl",
    ),
    "longer": Fault(
        "completions get longer",
        {"rewards": {"correct": "ExactMatch", "long": function("long")}, "engine": {"max_new_tokens": 32}},
        (
            "completions/mean_length",
            "completions/length_reward_correlation",
            "completions/clipped_ratio",
            "rewards/long/share",
            "rewards/correct/mean",
        ),
    ),
    "equal": Fault(
        "all groups are equal",
        FAULTS["zero_variance"],
        ("frac_reward_zero_std", "reward", "rewards/correct/std", "advantages/std", "grad_norm", "val/reward"),
    ),
    "slow": Fault(
        "slow",
        {"rewards": {"correct": function("slow")}},
        ("perf/seconds", "perf/rollout_s", "perf/reward_s", "perf/optimize_s", "rewards/correct/seconds", "perf/tokens_per_second"),
    ),
}
"""By the mark of its table in the page."""
HEALTHY: dict[str, dict[str, Any]] = {"healthy": {}, "healthy_kl": {"algorithm": {"kl": KL}}}
"""Runs without a fault."""


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/troubleshooting"), help="folder for logs and results")
    parser.add_argument("--policy", type=Path, help="a warm-started policy, in place of training one")
    arguments = parser.parse_args()
    plans = HEALTHY | {name: fault.changes for name, fault in ENTRIES.items()}
    missing = [name for name in plans if not (arguments.out / name / "result.json").exists()]
    print(f"{len(plans)} runs of {ROLLOUTS} rollouts, {len(plans) - len(missing)} of them complete", flush=True)
    policy = arguments.policy or (warm_start(arguments.out) if missing else None)
    for name in missing:
        train(name, plans[name], policy, arguments.out)
    results = {name: json.loads((arguments.out / name / "result.json").read_text()) for name in plans}
    logs = {name: read_run(Path(result["folder"])).log.numbers for name, result in results.items()}
    text = PAGE.read_text()
    for name, fault in ENTRIES.items():
        text = filled(text, name, table_of(fault, logs[name], logs[fault.against], results[name]["alarms"]))
    PAGE.write_text(text)
    draw(logs)
    print(f"Written: {PAGE} and {PICTURE}")


def filled(page: str, name: str, table: str) -> str:
    """The page with a table below its mark.

    Raises:
        ValueError: the page has no such mark.
    """
    before, mark, rest = page.partition(f"<!-- run of {name} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not mark or not end:
        raise ValueError(f"{PAGE} has no place for the table of {name}: <!-- run of {name} --> and below it <!-- end -->")
    return f"{before}{mark}\n{table}\n\n{end}{after}"


def train(name: str, changes: dict[str, Any], policy: Path | None, out: Path) -> None:
    """Carry out one run, and write where it is and which alarms it raised."""
    heard = Heard("")
    settings = {
        "model": {"lr_scheduler": {"total_steps": ROLLOUTS}} | changes,
        "rollouts": ROLLOUTS,
        "trainer": {"check_val_every_n_epoch": 5, "enable_checkpointing": False},
        "data": {"validation_size": 256},
    }
    trainer = fit(["--config", str(config_file("grpo_sort")), f"--model.policy.path={policy}"], settings, out / name, heard)
    (out / name / "result.json").write_text(json.dumps({"folder": str(trainer.log_dir), "alarms": heard.first}) + "\n")
    print(f"{name:<16}{shown(heard.first)}", flush=True)


def table_of(fault: Fault, faulty: dict[str, Series[float]], healthy: dict[str, Series[float]], alarms: dict[str, int]) -> str:
    """The numbers of an entry at the start and at the end of both runs, and the alarms."""
    rows = [(f"`{name}`", mean(faulty.get(name), 0), mean(faulty.get(name), -1), mean(healthy.get(name), -1)) for name in fault.numbers]
    table = [("look at", "start", "end", "healthy run, end"), ("---",) * 4, *rows]
    raised = ", ".join(f"`{name}` at rollout {when}" for name, when in alarms.items()) or "none"
    return "\n".join([*(f"| {' | '.join(cells)} |" for cells in table), "", f"Alarms of this run: {raised}."])


def mean(series: Series[float] | None, end: int) -> str:
    """The mean of the first or the last values; of fewer than twice as many the first or last one."""
    values = [series[x] for x in sorted(series) if math.isfinite(series[x])] if series else []
    if not values:
        return "-"
    chosen = values[:AVERAGED] if end == 0 else values[-AVERAGED:]
    return f"{sum(chosen) / len(chosen) if len(values) >= 20 else values[end]:.3g}"


def draw(logs: dict[str, dict[str, Series[float]]]) -> None:
    """The first number of each entry, beside that of the healthy run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    for axes, (name, fault) in zip(figure.subplots(2, 3).flat, ENTRIES.items(), strict=True):
        for log, colour, label in ((logs[fault.against], "#8a9099", "healthy"), (logs[name], "#c0392b", "with the fault")):
            series = log[fault.numbers[0]]
            axes.plot(list(series), list(series.values()), color=colour, label=label, linewidth=1.3)
        if max(logs[name][fault.numbers[0]].values()) > 100 * median(logs[fault.against][fault.numbers[0]].values()):
            axes.set_yscale("log", nonpositive="mask")
        axes.set_title(fault.title, fontsize=10)
        axes.set_ylabel(fault.numbers[0], fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize=7)
    figure.supxlabel("rollouts", fontsize=8)
    figure.savefig(PICTURE, dpi=100)


if __name__ == "__main__":
    main()
