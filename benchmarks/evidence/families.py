"""Checks a tiny model of every causal family of transformers, as `lightrl check-model --tiny FAMILY` does, and writes docs/models.md.

Run `OMP_NUM_THREADS=1 python -m benchmarks.evidence.families`. It takes some fifteen minutes on one core. `--only llama qwen3` prints
those families alone and writes nothing. Results are added to results.jsonl in the output folder as they come, and what is in it is not run
again.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import math
import signal
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

from lightrl_check_model import TinyFamily, checks, families

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
SECONDS = 240
"""CPU time that a family may take."""
SHORT = {
    "causal": "causal",
    "packed rows": "packed",
    "right padding": "right padding",
    "order of rows": "order",
    "shared prompts": "shared prompts",
    "dropout": "dropout",
    "gradient": "gradient",
    "cached decoding": "decoding",
    "left padding": "left padding",
    "later turns": "later turns",
    "first-pass ratio": "ratio",
    "save and load": "saved",
    "adapters merged": "adapters",
}
"""Columns of the table."""
WITHIN = {"decoding": "cached decoding", "folder": "adapters merged"}
"""The column of a part that has ended in an error."""
TEXT = """\
# Models: what was checked of every family

`lightrl check-model` (lightrl-check-model) was run on a tiny random model of every causal family of transformers {transformers}, in float32
on a CPU, with dropout in its configuration. Of {families} families {made} can be made so; {sound} of them are sound in lightrl.

Written by `python -m benchmarks.evidence.families`. For a checkpoint: `lightrl check-model PATH`.

## What this would have found

Most trainers pack rows one behind the other, with positions that begin anew, to save time. **In {leaks} of {made} families transformers
alone does this wrongly**: recurrent layers carry their state into the next row, or attention sees the row before. ms-swift#9565,
NeMo-Automodel#2147 and lmms-engine#167 report models that were trained so for months; maxtext#5292 reports left padding that reaches
recurrent states. At the start of a run lightrl tries whether rows can be packed, and runs them one beside the other where they cannot.

## The table

`=` exact; `h` handled: the model alone is wrong, and lightrl is exact; `r` refused at the start of a run; **x** wrong; empty: not tried,
because something before it failed.

{table}

## What is refused or wrong

{notes}

## Families of which there is no tiny model

{absent}
"""
SIGNS = {"exact": "=", "handled": "h", "refused": "r", "wrong": "**x**", "not applicable": "", "measured": ""}


def main() -> int:
    """Run what is missing, print it, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=families(), metavar="FAMILY", help="print these alone")
    parser.add_argument("--out", type=Path, default=Path("runs/families"), help="folder of the results")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = arguments.out / "results.jsonl"
    known = {row["family"]: row for row in map(json.loads, results.read_text().splitlines())} if results.is_file() else {}
    for family in arguments.only or families():
        if arguments.only or family not in known:
            known[family] = tried(family)
            print(line(known[family]), flush=True)
            if not arguments.only:
                with results.open("a") as file:
                    print(json.dumps(known[family]), file=file)
    if not arguments.only:
        PAGE.write_text(page([known[family] for family in families()]))
    return 0


def tried(family: str) -> dict[str, Any]:
    """What the checks of a family give, or why there is no tiny model of it."""
    logging.disable(logging.WARNING)
    with contextlib.redirect_stderr(io.StringIO()), limit(SECONDS):
        try:
            policy = TinyFamily(family).build()
        except Exception as error:
            return {"family": family, "why": f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[0]}"}
        try:
            found = list(checks(policy))
        except TimeoutError as error:
            return {"family": family, "why": str(error)}
    rows = [{"name": check.name, "verdict": check.verdict, "model": check.model, "ours": check.ours, "says": check.says} for check in found]
    return {"family": family, "class": type(policy.model).__name__, "checks": rows}


@contextlib.contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Within, more CPU time ends in a TimeoutError."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"its checks take more than {seconds} s")

    old = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)


def line(row: dict[str, Any]) -> str:
    """A family in one line, and one for each fault."""
    if "why" in row:
        return f"{row['family']:<28} not made: {row['why']}"
    counts = Counter(check["verdict"] for check in row["checks"])
    shown = [
        f"{row['family']:<28} {counts['exact']} exact, {counts['handled']} handled, {counts['refused']} refused, {counts['wrong']} wrong"
    ]
    for check in row["checks"]:
        if check["verdict"] in ("handled", "refused", "wrong"):
            numbers = " ".join("-" if check[side] is None else f"{check[side]:.1e}" for side in ("model", "ours"))
            shown.append(f"    {check['name']}: {check['verdict']} ({numbers}) {check['says']}")
    return "\n".join(shown)


def page(rows: list[dict[str, Any]]) -> str:
    """The page, as Markdown."""
    made = [row for row in rows if "checks" in row]
    names = list(dict.fromkeys(check["name"] for row in made for check in row["checks"] if check["name"] in SHORT))
    table = [f"| family | {' | '.join(SHORT[name] for name in names)} |", f"|---|{'---|' * len(names)}"]
    notes = []
    for row in made:
        marks = {WITHIN.get(check["name"], check["name"]): SIGNS[check["verdict"]] for check in row["checks"]}
        table.append(f"| {row['family']} | {' | '.join(marks.get(name, '') for name in names)} |")
        failed = [check for check in row["checks"] if check["verdict"] in ("refused", "wrong")]
        # decoding in bfloat16 fails as decoding does
        said = {check["says"]: check for check in reversed(failed)}
        notes += [f"- {row['family']}, {note(check)}" for check in reversed(said.values())]
    leaks = [check["model"] for row in made for check in row["checks"] if check["name"] == "packed rows" and check["verdict"] == "handled"]
    wrong = sum(any(check["verdict"] == "wrong" for check in row["checks"]) for row in made)
    return TEXT.format(
        transformers=version("transformers"),
        families=len(rows),
        made=len(made),
        sound=len(made) - wrong,
        leaks=len(leaks),
        table="\n".join(table),
        notes="\n".join(notes),
        absent="\n".join(f"- {row['family']}: {row['why']}" for row in rows if "why" in row),
    )


def note(check: dict[str, Any]) -> str:
    """A property that does not hold, in one line."""
    number = max(value for value in (check["model"], check["ours"], 0.0) if value is not None)
    shown = "" if math.isinf(number) or number == 0 else f" by {number:.2g}"
    return f"{check['name']}: {check['verdict']}{shown}. {check['says']}"


if __name__ == "__main__":
    raise SystemExit(main())
