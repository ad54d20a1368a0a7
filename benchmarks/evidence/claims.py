"""Looks for published effects of algorithms on a small task: `python -m benchmarks.evidence.claims`, or `make bench CASE=claims`.

Every claim compares two settings of an algorithm that differ in one mechanism, with five seeds each, from the same start per seed. Its
measure and threshold are in claim_list.py, and were written before its first run. The effect of a seed is the difference of
both measures as a share of the mean of the side without the mechanism, in the direction that was published. An effect is

    seen       if the 95 % interval of its mean over seeds (Student's t) is above 0, and the mean reaches the threshold;
    opposite   if the interval is below 0, and the mean reaches the threshold in the other direction;
    not seen   otherwise.

A claim about a factor is seen if every seed has it within the threshold. The ladder adds the mechanisms of DAPO to GRPO one after the
other. A run that is complete in the output folder is not repeated, so
that the command goes on where it was stopped. The plan is printed first; `--plan` prints nothing else. The tables are written to
docs/claims.md, and the picture to docs/images/claims.png.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks import ROOT, config_file
from benchmarks.evidence.claim_ladder import ladder_rows, rungs_of
from benchmarks.evidence.claim_list import CLAIMS, LADDER, ROLLOUTS, RUNG_HIGHER, SIDES, STARTS, Claim, Side, changes_of
from benchmarks.evidence.claim_measures import MEASURES, RowNumbers
from benchmarks.evidence.claim_picture import draw
from benchmarks.evidence.claim_verdict import DONE, SEEDS, Verdict, verdict
from benchmarks.faults.alarms import fit
from benchmarks.logged_process import run_logged
from lightrl.callbacks.alarms import Alarms

DOCS = ROOT / "docs"
PAGE, PICTURE = DOCS / "claims.md", DOCS / "images" / "claims.png"
LADDER_NAME = "ladder"
"""Of the ladder among the claims of `--only`."""
MINUTES_PER_RUN, MINUTES_PER_START = 0.35, 0.3
"""On an idle core."""


def main() -> int:
    """Print the plan, run what is missing, write the page; 0 whatever the verdicts are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*(claim.name for claim in CLAIMS), LADDER_NAME]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="CLAIM", help=f"of: {', '.join(names)}")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time, one core each")
    parser.add_argument("--out", type=Path, default=Path("runs/claims"), help="folder for logs")
    parser.add_argument("--plan", action="store_true", help="print the plan and end")
    parser.add_argument("--run", nargs=2, metavar=("SIDE", "SEED"), help="carry out one run; the command calls itself with it")
    arguments = parser.parse_args()
    if arguments.run:
        carry_out(arguments.run[0], int(arguments.run[1]), arguments.out)
        return 0
    chosen = [claim for claim in CLAIMS if claim.name in arguments.only]
    missing = plan(chosen, arguments.out, arguments.jobs, LADDER if LADDER_NAME in arguments.only else ())
    if arguments.plan:
        return 0
    work(arguments.out, starts_of(missing, arguments.out), arguments.jobs)
    work(arguments.out, missing, arguments.jobs)
    verdicts = {claim.name: verdict(claim, arguments.out) for claim in CLAIMS}
    width = max(len(claim.name) for claim in CLAIMS) + 2
    for claim in chosen:
        print(f"{claim.name:<{width}}{verdicts[claim.name].word:<10}{verdicts[claim.name].effect}")
    found = ordered([(claim, verdicts[claim.name]) for claim in CLAIMS])
    rungs = rungs_of(arguments.out)
    draw(found, rungs, PICTURE)
    PAGE.write_text(page(found, ladder_rows(rungs)))
    print(f"Written: {PAGE} and {PICTURE}")
    return 0


def plan(claims: Sequence[Claim], out: Path, jobs: int, rungs: Collection[str] = ()) -> list[tuple[str, int]]:
    """Print what is to be run; the side and the seed of each run that is missing."""
    sides = dict.fromkeys([*(side for claim in claims for side in (claim.without, claim.side)), *rungs])
    runs = [(side, seed) for seed in SEEDS for side in sides]
    missing = [(side, seed) for side, seed in runs if not (out / f"{side}-{seed}" / DONE).exists()]
    minutes = (len(missing) * MINUTES_PER_RUN + len(starts_of(missing, out)) * MINUTES_PER_START) / jobs
    compared = f"{len(claims)} claims, {len(rungs)} rungs of the ladder"
    print(f"{compared}, {len(sides)} settings, {len(SEEDS)} seeds: {len(runs)} runs of {ROLLOUTS} rollouts")
    for claim in claims:
        print(f"  {claim.name}: {claim.side!r} beside {claim.without!r}, {MEASURES[claim.measure][0]}")
    if rungs:
        print(f"  {LADDER_NAME}: {', '.join(rungs)}")
    print(f"{len(runs) - len(missing)} runs are complete. The others take about {minutes:.0f} minutes on {jobs} idle cores.", flush=True)
    return missing


def starts_of(runs: Sequence[tuple[str, int]], out: Path) -> list[tuple[str, int]]:
    """The supervised starts that runs need and that are missing, each with its seed."""
    needed = dict.fromkeys((side_of(name).start, seed) for name, seed in runs)
    return [(name, seed) for name, seed in needed if not (out / f"{name}-{seed}" / DONE).exists()]


def side_of(name: str) -> Side:
    """A side of a claim, or a rung of the ladder."""
    return SIDES[name] if name in SIDES else LADDER[name]


def work(out: Path, runs: Sequence[tuple[str, int]], jobs: int) -> None:
    """Carry out runs in processes of their own, so many at a time."""

    def one(run: tuple[str, int]) -> None:
        name = f"{run[0]}-{run[1]}"
        (out / name).mkdir(parents=True, exist_ok=True)
        run_logged(["-m", __spec__.name, "--out", out, "--run", *run], out / name / "output.txt")
        print(f"{name} is complete", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, runs))


def carry_out(side: str, seed: int, out: Path) -> None:
    """One run in this process: the supervised start of a seed, or a side."""
    folder = out / f"{side}-{seed}"
    if side in STARTS:
        seeds = {"seed_everything": seed, "data": {"seed": seed}, "model": {"policy": {"seed": seed}}}
        trainer = fit(["--config", str(config_file("sft_sort")), *STARTS[side]], seeds, folder)
    else:
        chosen = side_of(side)
        start = json.loads((out / f"{chosen.start}-{seed}" / DONE).read_text())
        words = ["--config", str(config_file(chosen.config)), f"--model.policy.path={start}/policy"]
        trainer = fit(words, changes_of(chosen, seed), folder, RowNumbers(), Alarms())
    (folder / DONE).write_text(json.dumps(str(Path(trainer.log_dir).resolve())))


ORDER = ("opposite", "not seen", "seen", "not run")
"""Of the verdicts in the page: what was not found comes first."""


def ordered(verdicts: Sequence[tuple[Claim, Verdict]]) -> list[tuple[Claim, Verdict]]:
    """The claims in the order of the page."""
    return sorted(verdicts, key=lambda pair: ORDER.index(pair[1].word))


def page(verdicts: Sequence[tuple[Claim, Verdict]], rungs: Sequence[str]) -> str:
    """docs/claims.md.

    Args:
        verdicts: in the order of the page.
        rungs: rows of the ladder's table.
    """
    counts = ", ".join(f"{word}: {sum(found.word == word for _, found in verdicts)}" for word in ORDER)
    rows = [row(*pair) for pair in verdicts]
    return PAGE_TEXT.format(
        seeds=len(SEEDS), rollouts=ROLLOUTS, counts=counts, rows="\n".join(rows), rungs="\n".join(rungs), least=f"{RUNG_HIGHER:.0%}"
    )


def row(claim: Claim, found: Verdict) -> str:
    """A claim in the table."""
    cells = (f"**{found.word}**", f"{claim.name}: {claim.effect} ({claim.source})", MEASURES[claim.measure][0], threshold(claim))
    return "| " + " | ".join((*cells, found.effect, found.with_it, found.without)) + " |"


PAGE_TEXT = """\
# Published effects, on a small task

`make bench CASE=claims` trains with and without one mechanism, {seeds} seeds each, for {rollouts} rollouts of sorting six digits
(sixteen for VAPO), and writes this page. It goes on where it was stopped; `make bench CASE=claims ARGS=--plan` prints what it would do.

`benchmarks/evidence/claim_list.py` has the measures and thresholds, which were written before the first run. A task this small can show
that an effect exists, and not how large it is elsewhere. An effect that is not seen here may need longer completions or longer runs.

The effect of a seed is the difference of both sides as a share of the mean without the mechanism, in the published direction. It is seen
if the interval over seeds is above 0 and the mean reaches the threshold, and opposite if both hold with the other sign.

{counts}.

![The effect of each claim with its interval over seeds beside its threshold, and avg@32 of each rung](images/claims.png)

A dot is the mean over seeds, a line its 95 % interval, and the grey band reaches to the threshold on both sides of 0. A dot in the band is
too small to count, and a line that crosses 0 too uncertain.

| verdict | claim | measure | threshold | effect, 95 % interval | with | without |
|---|---|---|---|---|---|---|
{rows}

## From GRPO to DAPO, rung by rung

Each rung has one mechanism more than the rung before it, in the order of DAPO's table (Yu et al. 2025, arXiv:2503.14476, table 1), for
{rollouts} rollouts of sorting six digits, with {seeds} seeds. GRPO stands here without KL, with a clip of 0.2 on both sides and with
the mean over the tokens of each answer first. avg@32 is the share of right answers among 32 samples of each of 256 held-out prompts at the
end; entropy, length and truncation are means of the last quarter. The verdict on a rung is that on its avg@32 beside the rung before, by
the rule above, with the threshold {least}. The numbers are means over seeds with their 95 % interval.

| rung | verdict | change of avg@32 | avg@32 | entropy | length in tokens | cut off | completions used |
|---|---|---|---|---|---|---|---|
{rungs}
"""


def threshold(claim: Claim) -> str:
    """The threshold in words."""
    if claim.expected == "factor":
        return f"times {claim.factor:.6f}, to {claim.threshold:g}"
    return f"{claim.threshold:.0%} {claim.expected}"


if __name__ == "__main__":
    sys.exit(main())
