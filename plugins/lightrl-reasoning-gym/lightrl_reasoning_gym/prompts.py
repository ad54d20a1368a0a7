"""Questions of reasoning-gym as prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightrl import Prompt, PromptSource, required_package
from lightrl_reasoning_gym.tasks import dataset, to_json

if TYPE_CHECKING:
    from reasoning_gym.dataset import ProceduralDataset


class ReasoningGym(PromptSource):
    """Questions of a task of reasoning-gym, made by its generator; `ReasoningGymScore` scores the answers.

    Prompts have the columns `task` (its name, level and config), `question` and `metadata`. Most tasks make question i from seed + i
    alone: two seeds that are at least `size` apart have no question in common, so leave that much between training and evaluation.

    Source: Stojanovski et al. 2025, *Reasoning Gym*, arXiv:2505.24760.
    """

    def __init__(
        self,
        task: str,
        size: int = 1000,
        seed: int = 0,
        level: int | None = None,
        config: dict[str, Any] | None = None,
        system: str | None = "default",
        chat: bool = True,
    ) -> None:
        """
        Args:
            task: the name, such as `chain_sum`.
            size: how many questions; at least 1.
            seed: of the first question; at least 0.
            level: of the task's curriculum, from 0, for all its attributes at once; null: as the task is by default.
            config: settings of the task by name, `{max_digits: 3}`, in place of those of the level.
            system: how to answer: the name of one of the package's system prompts, or a text; null: nothing.
            chat: the question becomes the user's message and `system` a system prompt; false makes one raw text of both.

        Raises:
            ValueError: an argument outside its range, when the source is made; a task, level or setting that does not exist, before the
                first question.
        """
        required_package("reasoning_gym", "lightrl-reasoning-gym[full]", "ReasoningGym")
        if size < 1 or seed < 0:
            raise ValueError(f"ReasoningGym needs size >= 1 and seed >= 0, got {size} and {seed}")
        self.task, self.seed, self.level, self.config = task, seed, level, dict(config or {})
        self.system, self.chat = system, chat
        self._size = size
        self._made: ProceduralDataset | None = None

    @property
    def size(self) -> int:
        return self._size

    def prepare(self) -> None:
        self._generator()

    def prompt(self, index: int) -> Prompt:
        entry = self._generator()[index]
        instruction, question, answer = self._instruction(), str(entry["question"]), to_json(entry["answer"])
        task = {"name": self.task, "level": self.level, "config": self.config}
        columns = {"task": task, "question": question, "metadata": to_json(entry["metadata"])}
        name = f"{self.task}:{self.seed + index}"
        if not self.chat:
            text = "\n".join(part for part in (instruction, question) if part)
            return Prompt(id=name, text=text, answer=answer, columns=columns)
        system = [{"role": "system", "content": instruction}] if instruction else []
        return Prompt(id=name, messages=(*system, {"role": "user", "content": question}), answer=answer, columns=columns)

    def _generator(self) -> ProceduralDataset:
        if self._made is None:
            self._made = dataset(self.task, self._size, self.seed, self.level, self.config)
        return self._made

    def _instruction(self) -> str:
        from reasoning_gym.utils import SYSTEM_PROMPTS

        return str(SYSTEM_PROMPTS.get(self.system, self.system)).strip() if self.system else ""
