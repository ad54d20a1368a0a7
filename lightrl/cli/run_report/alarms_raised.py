"""The alarms of a run as its log has them."""

from __future__ import annotations

from dataclasses import dataclass

from lightrl.cli.run_report.run_log import RunLog

ALARMS = "alarms/"


@dataclass(frozen=True)
class Raised:
    """An alarm that was raised."""

    name: str
    """Of the alarm."""
    when: int
    """The rollout or step that raised it."""
    told: list[str]
    """What it saw, why that matters and what to try, a paragraph each; empty where the log has no texts."""


def alarms_raised(log: RunLog) -> list[Raised]:
    """Every alarm in the order in which they were raised; one that came back stands there again.

    Args:
        log: of one run.
    """
    found = []
    for name, series in log.numbers.items():
        if name.startswith(ALARMS):
            texts = log.texts.get(name, {})
            # the text of an alarm stands at the step of its number, and the log counts these from 0
            found += [Raised(name.removeprefix(ALARMS), when, _paragraphs(texts.get(when - 1, ""))) for when, on in series.items() if on]
    return sorted(found, key=lambda raised: (raised.when, raised.name))


def _paragraphs(markdown: str) -> list[str]:
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark", {"html": False}).parse(markdown)
    return ["".join(child.content for child in token.children or []) for token in tokens if token.type == "inline"]
