"""`lightrl report RUN [RUN ...]`: curves, settings, samples, alarms and cost of runs in one HTML page that needs nothing beside it.

A RUN is the folder that a run logged to, with TensorBoard's or CSVLogger's log. Runs that differ in their seeds alone are one line with a
band. A run that is still going, or that was killed, is shown as far as it came.
"""

import argparse
import sys
from pathlib import Path

from lightrl.config import ConfigError

EPILOG = """\
  lightrl report runs/grpo/version_0
  lightrl report runs/grpo/version_* runs/dapo/version_* --out comparison.html
"""
GENERATOR = "lightrl report"
"""The mark by which a page is known as a report."""
TOP = 1000
"""Bytes of a page within which the mark is found."""


def report(words: list[str]) -> int:
    """Carry out `lightrl report`; a ConfigError, and nothing written, if a folder has no run, or the page is the name of something else."""
    options = _parser().parse_args(words)
    out = Path(options.out).expanduser()
    # a browser shows a file without an ending as text
    out = out if out.suffix or out.is_dir() else out.with_suffix(".html")
    _refuse_other_file(out)
    from lightrl.strategies.atomic import partial, publish
    from lightrl.workers.waiting import waiting
    from lightrl_runs.report.page import page
    from lightrl_runs.report.run_folder import read_run

    given = {Path(run).expanduser().resolve(): Path(run).expanduser() for run in reversed(options.runs)}
    with waiting("reading the logs and drawing the curves"):
        text = page([read_run(run) for run in reversed(given.values())])
    written = partial(out)
    written.write_text(text, encoding="utf-8", errors="backslashreplace")
    publish(written, out)
    sys.stdout.write(f"Report of {len(given)} run{'s' if len(given) > 1 else ''}: {out} ({out.stat().st_size / 1e6:.1f} MB)\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="lightrl report", description=__doc__, epilog=EPILOG, formatter_class=kind, allow_abbrev=False)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the folder of a run, for example runs/grpo/version_0")
    parser.add_argument("--out", metavar="FILE", default="report.html", help="the page (.html); an earlier report of this name is replaced")
    return parser


def _refuse_other_file(out: Path) -> None:
    if not out.parent.is_dir():
        raise ConfigError("--out", f"there is no folder {str(out.parent)!r}.", "Give the path of a file in a folder that exists.")
    if out.exists() and not is_report(out):
        raise ConfigError("--out", f"{str(out)!r} exists and is no report, and nothing else is overwritten.", "Give another name.")


def is_report(file: Path) -> bool:
    """The file is a page that `lightrl report` has made."""
    if not file.is_file():
        return False
    with file.open("rb") as page:
        return f'<meta name="generator" content="{GENERATOR}">'.encode() in page.read(TOP)
