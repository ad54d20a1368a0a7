"""Pairs of completions taken apart, for objectives on labelled completions."""

from dataclasses import replace

from lightrl import Prompt, PromptSource


class Unpaired(PromptSource):
    """Every pair of another source as two prompts: one with the better completion and `label` true, one with the worse and false.

    The columns are `completion` and `label`, beside the others of the source.
    """

    def __init__(self, source: PromptSource, chosen: str = "chosen", rejected: str = "rejected") -> None:
        """
        Args:
            source: whose columns hold both completions.
            chosen: the column with the better one.
            rejected: the column with the worse one.
        """
        self.source, self.chosen, self.rejected = source, chosen, rejected

    @property
    def size(self) -> int | None:
        return None if self.source.size is None else 2 * self.source.size

    def prompt(self, index: int) -> Prompt:
        pair, worse = divmod(index, 2)
        prompt, column = self.source.prompt(pair), self.rejected if worse else self.chosen
        if column not in prompt.columns:
            known = ", ".join(prompt.columns) or "none"
            raise ValueError(f"prompt {prompt.id!r} has no column {column!r}. It has: {known}. Name it in the arguments of Unpaired")
        others = {name: value for name, value in prompt.columns.items() if name not in (self.chosen, self.rejected)}
        labelled = {"completion": prompt.columns[column], "label": not worse}
        return replace(prompt, id=f"{prompt.id}:{column}", columns={**others, **labelled})

    def prepare(self) -> None:
        self.source.prepare()
