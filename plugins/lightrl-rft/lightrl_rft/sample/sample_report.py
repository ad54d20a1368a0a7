"""The outcomes of the completions that were sampled, in one table."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table


def print_summary(counts: Mapping[str, float], options: argparse.Namespace) -> None:
    """Print it for a person.

    Args:
        counts: as `lightrl_rft.sample.rejection.counts` gives them, summed over prompts.
        options: of the command line.
    """
    prompts, completions = counts["prompts"], counts["completions"]
    scored = completions - counts["failed"]
    right = "above 0" if options.at_least is None else f"of at least {options.at_least:g}"
    lines = {
        "prompts": f"{prompts:,.0f}",
        "completions": f"{completions:,.0f}",
        "without a score": f"{counts['failed']:,.0f}",
        "cut at the token limit": f"{counts['cut']:,.0f}",
        "blank": f"{counts['blank']:,.0f}",
        "said before": f"{counts['duplicates']:,.0f}",
        "mean reward": f"{counts['reward'] / scored:.4f}" if scored else "-",
        f"pass@1 (a reward {right})": f"{counts['pass_1'] / prompts:.4f}",
        f"pass@{options.n}": f"{counts['pass_n'] / prompts:.4f}",
        "rows kept": f"{counts['kept']:,.0f}",
        "prompts without one": f"{counts['without']:,.0f}",
    }
    table = Table(show_header=False, box=None)
    table.add_column()
    table.add_column(justify="right")
    for name, value in lines.items():
        table.add_row(name, value)
    Console().print(table)
