"""Looks for published effects of algorithms on a small task: `python benchmarks/claims.py`, or `make claims`.

Every claim compares two settings of GRPO that differ in one mechanism, with five seeds each, from the same start per seed. Its measure and
threshold stand in benchmarks/claim_list.py and were written before its first run. The effect of a seed is the difference of both measures
as a share of the mean of the side without the mechanism, in the direction that was published. An effect is

    seen       if the 95 % interval of its mean over seeds (Student's t) is above 0, and the mean reaches the threshold;
    opposite   if the interval is below 0, and the mean reaches the threshold in the other direction;
    not seen   otherwise.

A claim about a factor is seen if every seed has it within the threshold. A run that is complete in the output folder is not repeated, so
that the command goes on where it was stopped. The plan is printed first; `--plan` prints nothing else. The table is written to
docs/claims.md.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from alarms import CONFIGS, fit
from claim_list import CLAIMS, ROLLOUTS, SIDES, Claim, changes_of
from claim_measures import MEASURES, RowNumbers
from logged_process import run_logged
from scipy import stats

from lightrl.callbacks.alarms import Alarms
from lightrl.cli.run_report.run_folder import read_run

PAGE = Path(__file__).resolve().parent.parent / "docs" / "claims.md"
SEEDS = (0, 1, 2, 3, 4)
MINUTES_PER_RUN, MINUTES_PER_START = 1.0, 0.5
"""On an idle core."""
DONE = "folder.json"
"""Names the log of a run, once it is complete."""


@dataclass(frozen=True)
class Verdict:
    """The result of a claim."""

    word: str
    """seen, not seen, opposite or not run."""
    effect: str = "-"
    """Its mean and interval, or the range of a factor."""
    with_it: str = "-"
    """Mean of the measure with the mechanism."""
    without: str = "-"
    """Mean of the measure without it."""


def main() -> int:
    """Print the plan, run what is missing, write the page; 0 whatever the verdicts are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[c.name for c in CLAIMS], default=[c.name for c in CLAIMS], metavar="CLAIM")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time, one core each")
    parser.add_argument("--out", type=Path, default=Path("runs/claims"), help="folder for logs")
    parser.add_argument("--plan", action="store_true", help="print the plan and end")
    parser.add_argument("--run", nargs=2, metavar=("SIDE", "SEED"), help="carry out one run; the command calls itself with it")
    arguments = parser.parse_args()
    if arguments.run:
        carry_out(arguments.run[0], int(arguments.run[1]), arguments.out)
        return 0
    chosen = [claim for claim in CLAIMS if claim.name in arguments.only]
    missing = plan(chosen, arguments.out, arguments.jobs)
    if arguments.plan:
        return 0
    starts = {seed for _, seed in missing if not (arguments.out / f"start-{seed}" / DONE).exists()}
    work(arguments.out, [("start", seed) for seed in sorted(starts)], arguments.jobs)
    work(arguments.out, missing, arguments.jobs)
    verdicts = {claim.name: verdict(claim, arguments.out) for claim in CLAIMS}
    for claim in chosen:
        print(f"{claim.name:<36}{verdicts[claim.name].word:<10}{verdicts[claim.name].effect}")
    PAGE.write_text(page([(claim, verdicts[claim.name]) for claim in CLAIMS]))
    print(f"Written: {PAGE}")
    return 0


def plan(claims: Sequence[Claim], out: Path, jobs: int) -> list[tuple[str, int]]:
    """Print what is to be run; the side and the seed of each run that is missing."""
    sides = dict.fromkeys(side for claim in claims for side in (claim.without, claim.side))
    runs = [(side, seed) for seed in SEEDS for side in sides]
    missing = [(side, seed) for side, seed in runs if not (out / f"{side}-{seed}" / DONE).exists()]
    starts = sum(not (out / f"start-{seed}" / DONE).exists() for seed in {seed for _, seed in missing})
    minutes = (len(missing) * MINUTES_PER_RUN + starts * MINUTES_PER_START) / jobs
    print(f"{len(claims)} claims, {len(sides)} settings, {len(SEEDS)} seeds: {len(runs)} runs of {ROLLOUTS} rollouts")
    for claim in claims:
        print(f"  {claim.name}: {claim.side!r} beside {claim.without!r}, {MEASURES[claim.measure][0]}")
    print(f"{len(runs) - len(missing)} runs are complete. The others take about {minutes:.0f} minutes on {jobs} idle cores.", flush=True)
    return missing


def work(out: Path, runs: Sequence[tuple[str, int]], jobs: int) -> None:
    """Carry out runs in processes of their own, so many at a time."""

    def one(run: tuple[str, int]) -> None:
        name = f"{run[0]}-{run[1]}"
        (out / name).mkdir(parents=True, exist_ok=True)
        run_logged([__file__, "--out", out, "--run", *run], out / name / "output.txt")
        print(f"{name} is complete", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, runs))


def carry_out(side: str, seed: int, out: Path) -> None:
    """One run in this process: the supervised start of a seed, or a side."""
    folder = out / f"{side}-{seed}"
    if side == "start":
        changes = {"seed_everything": seed, "data": {"seed": seed}, "model": {"policy": {"seed": seed}}}
        trainer = fit(["--config", str(CONFIGS / "sft_sort.yaml")], changes, folder)
    else:
        start = json.loads((out / f"start-{seed}" / DONE).read_text())
        words = ["--config", str(CONFIGS / "grpo_sort.yaml"), f"--model.policy.path={start}/policy"]
        trainer = fit(words, changes_of(SIDES[side], seed), folder, RowNumbers(), Alarms())
    (folder / DONE).write_text(json.dumps(str(Path(trainer.log_dir).resolve())))


def verdict(claim: Claim, out: Path) -> Verdict:
    """Compare both sides of a claim, if all of their runs are there."""
    measured: list[list[float]] = []
    for side in (claim.side, claim.without):
        files = [out / f"{side}-{seed}" / DONE for seed in SEEDS]
        if not all(file.exists() for file in files):
            return Verdict("not run")
        measured.append([MEASURES[claim.measure][1](read_run(Path(json.loads(file.read_text()))).log) for file in files])
    return compared(claim, *measured)


def compared(claim: Claim, having: Sequence[float], without: Sequence[float]) -> Verdict:
    """The verdict on two measures of each seed.

    Args:
        claim: says what was expected.
        having: with the mechanism.
        without: without it, in the same order.
    """
    means = [sum(side) / len(side) for side in (having, without)]
    shown = {"with_it": f"{means[0]:.4g}", "without": f"{means[1]:.4g}"}
    if claim.expected == "factor":
        factors = [a / b for a, b in zip(having, without, strict=True)]
        seen = all(abs(factor / claim.factor - 1) <= claim.threshold for factor in factors)
        return Verdict("seen" if seen else "not seen", f"times {min(factors):.6f} to {max(factors):.6f}", **shown)
    sign = 1.0 if claim.expected == "higher" else -1.0
    effects = [sign * (a - b) / abs(means[1]) if means[1] else math.nan for a, b in zip(having, without, strict=True)]
    mean = sum(effects) / len(effects)
    half = float(stats.t.ppf(0.975, len(effects) - 1) * stats.tstd(effects) / math.sqrt(len(effects)))
    word = "not seen"
    if mean - half > 0 and mean >= claim.threshold:
        word = "seen"
    elif mean + half < 0 and mean <= -claim.threshold:
        word = "opposite"
    return Verdict(word, f"{mean:+.1%} ({mean - half:+.1%} to {mean + half:+.1%})", **shown)


ORDER = ("opposite", "not seen", "seen", "not run")
"""Of the verdicts in the page: what was not found comes first."""


def page(verdicts: Sequence[tuple[Claim, Verdict]]) -> str:
    """docs/claims.md."""
    counts = ", ".join(f"{word}: {sum(found.word == word for _, found in verdicts)}" for word in ORDER)
    rows = [row(*pair) for pair in sorted(verdicts, key=lambda pair: ORDER.index(pair[1].word))]
    return PAGE_TEXT.format(seeds=len(SEEDS), rollouts=ROLLOUTS, counts=counts, rows="\n".join(rows))


def row(claim: Claim, found: Verdict) -> str:
    """A claim in the table."""
    cells = (f"**{found.word}**", f"{claim.name}: {claim.effect} ({claim.source})", MEASURES[claim.measure][0], threshold(claim))
    return "| " + " | ".join((*cells, found.effect, found.with_it, found.without)) + " |"


PAGE_TEXT = """\
# Published effects, on a small task

`make claims` trains GRPO with and without one mechanism, {seeds} seeds each, for {rollouts} rollouts of sorting six digits, and writes
this page. It goes on where it was stopped; `make claims CLAIMS=--plan` prints what it would do.

Measures and thresholds stand in `benchmarks/claim_list.py` and were written before the first run. A task this small can show that an
effect exists, and not how large it is elsewhere. An effect that is not seen here may need longer completions or longer runs.

The effect of a seed is the difference of both sides as a share of the mean without the mechanism, in the published direction. It is seen
if the interval over seeds is above 0 and the mean reaches the threshold, and opposite if both hold with the other sign.

{counts}.

| verdict | claim | measure | threshold | effect, 95 % interval | with | without |
|---|---|---|---|---|---|---|
{rows}
"""


def threshold(claim: Claim) -> str:
    """The threshold in words."""
    if claim.expected == "factor":
        return f"times {claim.factor:.6f}, to {claim.threshold:g}"
    return f"{claim.threshold:.0%} {claim.expected}"


if __name__ == "__main__":
    sys.exit(main())
