"""Collections whose ranks draw from one stream, as they do in a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lightrl_workshop import Meeting, ScriptedCollection, learnt_from, on_ranks

from lightrl import Prompt, Ranks, Sampler, ScoredRollout
from lightrl.data.stream import PromptStream

T = TypeVar("T")


class StreamedCollection(ScriptedCollection):
    """Prompts 0, 1, ... of one stream; prompt i has the level i % 3 and scores as `scores` says."""

    def __init__(self, stream: PromptStream, prompts: int, meeting: Meeting, scores: Sequence[Sequence[float]]) -> None:
        super().__init__(prompts, rank=stream.rank, meeting=meeting, scores=scores)
        self._stream, self._ranks = stream, stream.world_size
        self.size = stream.size

    def draw(self, n: int) -> list[Prompt]:
        return [self.prompt(str(index)) for index in self._stream.draw(self.gather(n))]

    def prompt(self, name: str) -> Prompt:
        return Prompt(id=name, text="ab", answer=int(name), columns={"level": int(name) % 3})


def rollouts(
    make: Callable[[], Sampler], ranks: int, prompts: int, size: int, count: int, scores: Sequence[Sequence[float]]
) -> tuple[list[list[str]], list[Sampler]]:
    """The prompts of each rollout over all ranks, and the samplers of the ranks, which have learnt from all rollouts.

    Args:
        make: the sampler.
        ranks: how many.
        prompts: of a rollout, on all ranks together.
        size: training prompts.
        count: rollouts.
        scores: of each prompt's completions, by number.
    """
    streams = [PromptStream(size, rank=rank, world_size=ranks) for rank in range(ranks)]
    samplers = [make() for _ in range(ranks)]
    asked = []
    for _ in range(count):
        meeting = Meeting(ranks)

        def play(rank: int, of_run: Ranks, meeting: Meeting = meeting) -> ScoredRollout:
            try:
                scored = samplers[rank].collect(StreamedCollection(streams[rank], prompts // ranks, meeting, scores))
            finally:
                meeting.leave(rank)
            samplers[rank].commit(learnt_from(scored), of_run)
            return scored

        found = on_ranks(ranks, play)
        asked.append([prompt.id for scored in found for prompt in scored.prompts[:: samplers[0].group_size]])
    return asked, samplers
