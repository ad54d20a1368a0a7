"""The alarms of runs as their logs have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lightrl_runs.report.line import Line

ALARMS = "alarms/"
NO_TEXT = "At {when}; the log has no texts."
"""In place of what an alarm saw."""


@dataclass(frozen=True)
class Raised:
    """An alarm of some run."""

    path: Path
    """Of the run."""
    when: int
    """The rollout or step that raised it."""
    seen: str
    """What it saw; where the log has no texts, that it has none."""


@dataclass
class Alarm:
    """An alarm of a line, with the runs that raised it."""

    name: str
    """Of the alarm."""
    raised: list[Raised] = field(default_factory=list)
    """In the order of the runs; one that came back stands there again."""
    advice: list[str] = field(default_factory=list)
    """Why it matters and what to try, a paragraph each; empty where the log has no texts."""


def alarms_of(line: Line) -> list[Alarm]:
    """The alarms that the runs of a line raised, by name.

    Args:
        line: its runs with their logs.
    """
    found: dict[str, Alarm] = {}
    for run in line.runs:
        for name, series in run.log.numbers.items():
            for when in [step for step, on in series.items() if on] if name.startswith(ALARMS) else []:
                alarm = found.setdefault(name, Alarm(name.removeprefix(ALARMS)))
                # the text of an alarm stands at the step of its number, and the log counts these from 0
                seen, *advice = _paragraphs(run.log.texts.get(name, {}).get(when - 1, "")) or [NO_TEXT.format(when=when)]
                alarm.raised.append(Raised(run.path, when, seen))
                alarm.advice = advice
    return [found[name] for name in sorted(found)]


def _paragraphs(markdown: str) -> list[str]:
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark", {"html": False}).parse(markdown)
    return ["".join(child.content for child in token.children or []) for token in tokens if token.type == "inline"]
