"""The command that draws and keeps completions."""

from __future__ import annotations

from typing import Any

from lightrl import Command, hookimpl


class Sample(Command):
    """Draw completions of the training prompts, score them, and keep the best."""

    needs_model = True
    usage = (("--config dapo.yaml --keep best --out best.jsonl", "draw and score completions, keep the best, or pairs"),)

    def run(self, words: list[str]) -> int:
        from lightrl_rft.sample.sample import sample

        return sample(words)


@hookimpl
def lightrl_commands() -> list[type[Any]]:
    return [Sample]
