"""Texts of a log: the alarms of runs, and completions over the course of a run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lightrl_runs.report.line import Line
from lightrl_runs.report.logs import RunLog, Series

ALARMS = "alarms/"
NO_TEXT = "At {when}; the log has no texts."
LONGEST = 1500
"""Letters of a text that are shown."""


@dataclass(frozen=True)
class Raised:
    """An alarm of some run."""

    path: Path
    when: int
    seen: str
    """What it saw; where the log has no texts, that it has none."""


@dataclass
class Alarm:
    """An alarm of a line, with the runs that raised it."""

    name: str
    raised: list[Raised] = field(default_factory=list)
    """In the order of the runs; an alarm that was raised again is listed again."""
    advice: list[str] = field(default_factory=list)
    """Why it matters and what to try, a paragraph each; empty where the log has no texts."""


def alarms_of(line: Line) -> list[Alarm]:
    """The alarms that the runs of a line raised, by name."""
    found: dict[str, Alarm] = {}
    for run in line.runs:
        for name, series in run.log.numbers.items():
            for when in [step for step, on in series.items() if on] if name.startswith(ALARMS) else []:
                alarm = found.setdefault(name, Alarm(name.removeprefix(ALARMS)))
                seen, *advice = _paragraphs(run.log.texts.get(name, {}).get(when, "")) or [NO_TEXT.format(when=when)]
                alarm.raised.append(Raised(run.path, when, seen))
                alarm.advice = advice
    return [found[name] for name in sorted(found)]


def _paragraphs(markdown: str) -> list[str]:
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark", {"html": False}).parse(markdown)
    return ["".join(child.content for child in token.children or []) for token in tokens if token.type == "inline"]


HELD_OUT, LEARNT = "val/completions", "completions"
"""Tables of held-out prompts, which are the same each time, and of those that the policy learnt from."""
PROMPTS, TIMES = 4, 5
"""Prompts that are shown, and moments of the run, at most."""


@dataclass(frozen=True)
class Sample:
    """A completion at some moment."""

    when: int
    """Rollouts before it."""
    text: str
    """The completion or conversation, in the form in which the log has it."""
    scores: str
    """Everything else in its row."""


@dataclass(frozen=True)
class Sampled:
    """Completions of one prompt over time."""

    prompt: str
    """Or the number of the row, where a row holds a whole conversation."""
    samples: list[Sample]


def samples(log: RunLog) -> tuple[bool, list[Sampled]]:
    """Whether the prompts are held out, and the completions of the first prompts; of a run without validation each prompt comes once."""
    held_out = bool(log.texts.get(HELD_OUT))
    tables = log.texts.get(HELD_OUT) or log.texts.get(LEARNT, {})
    by_prompt: dict[str, dict[int, Sample]] = {}
    for when in _moments(tables):
        for number, row in enumerate(rows(tables[when]), start=1):
            prompt = row.pop("prompt", f"row {number}")
            text = row.pop("completion", None) or row.pop("conversation", "")
            scores = ", ".join(f"{name} {value}" for name, value in row.items() if value)
            by_prompt.setdefault(_cut(prompt), {}).setdefault(when, Sample(when, _cut(text), scores))
    most = PROMPTS if held_out else PROMPTS * TIMES
    return held_out, [Sampled(prompt, list(found.values())) for prompt, found in by_prompt.items()][:most]


def rows(table: str) -> list[dict[str, str]]:
    """The rows of a Markdown table, each cell under its heading, without the marks of Markdown; no rows if there is no table."""
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    def text(token: Token) -> str:
        return "".join("\n" if child.type in ("softbreak", "hardbreak") else child.content for child in token.children or [])

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    found: list[list[str]] = []
    inside = False
    for token in parser.parse(table):
        inside = token.type == "table_open" or (inside and token.type != "table_close")
        if inside and token.type == "tr_open":
            found.append([])
        elif inside and token.type == "inline":
            found[-1].append(text(token))
    return [dict(zip(found[0], row, strict=True)) for row in found[1:]] if found else []


def _moments(tables: Series[str]) -> Sequence[int]:
    """The first and the last one, and some between them at equal distances."""
    every = sorted(tables)
    if len(every) <= TIMES:
        return every
    return [every[round(i * (len(every) - 1) / (TIMES - 1))] for i in range(TIMES)]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} letters)"
