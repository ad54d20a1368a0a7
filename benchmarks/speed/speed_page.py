"""Puts what `make bench` with its cases `real` and `growth` has measured into docs/speed.md: `python -m benchmarks.speed.speed_page`."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

from benchmarks import ROOT
from benchmarks.speed.bench import FIRST_ROLLOUT

PAGE = ROOT / "docs" / "speed.md"
PLOT = PAGE.parent / "images" / "growth.png"


def filled(page: str, mark: str, text: str) -> str:
    """The page with a text between `<!-- measured: MARK -->` and the next `<!-- end -->`."""
    begin = f"<!-- measured: {mark} -->"
    return re.sub(f"{re.escape(begin)}\n.*?<!-- end -->", lambda _: f"{begin}\n\n{text.strip()}\n\n<!-- end -->", page, flags=re.DOTALL)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder with the folders bench, real and growth")
    runs = parser.parse_args().runs
    page = PAGE.read_text()
    for mark in ("bench", "real"):
        if not (runs / mark / "summary.json").exists():
            continue
        summary = json.loads((runs / mark / "summary.json").read_text())
        keys = [key for name in ("overhead_ms", *FIRST_ROLLOUT.values(), "logprobs_extra_gb") for key in (name, f"{name}_trl")]
        own = "".join(f"* `{key}`: {summary[key]}\n" for key in keys if key in summary)
        rounds = ", ".join(f"{name} {count}" for name, count in summary["rounds"].items())
        policy = f" Policy: {summary['model']}." if "model" in summary else ""
        said = f"Machine: {summary['machine']}.{policy} Rounds: {rounds}."
        page = filled(page, mark, "\n\n".join([said, (runs / mark / "table.md").read_text().strip(), own]))
    if (runs / "growth" / "table.md").exists():
        page = filled(page, "growth", (runs / "growth" / "table.md").read_text())
        shutil.copy(runs / "growth" / "growth.png", PLOT)
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
