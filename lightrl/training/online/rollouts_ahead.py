"""Rollouts that are made while the trainer learns from earlier ones."""

from __future__ import annotations

import threading
import time
import warnings
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from lightrl.algorithms.algorithm import Algorithm
from lightrl.parts.engine import RolloutEngine
from lightrl.ranks import Ranks
from lightrl.strategies.adapter import SideGroup
from lightrl.training.online.predictions import old_from
from lightrl.training.reports.run_ledger import RunLedger
from lightrl.training.reports.statistics import Report
from lightrl.types import ScoredRollout

if TYPE_CHECKING:
    from lightrl.training.online.rollout_collector import RolloutCollector

POLL_S = 0.5
"""Seconds between two looks at whether waiting has a point."""
PATIENCE_S = 2.0
"""Seconds in which a rollout that is not wanted any more has to end."""


@dataclass(frozen=True)
class MadeRollout:
    """A rollout that is to be learnt from, with the numbers of its making."""

    scored: ScoredRollout
    ledger: RunLedger
    """Numbers reported by sampler, engine and rewards, with the seconds of its phases."""
    begun: int
    """The number of the rollout that was learnt from first with the same weights."""

    def age(self, number: int, steps: int) -> Report:
        """How old it is, as a rollout of this number, from 0, when so many optimizer steps are behind the present weights."""
        report = Report()
        report.add("sampling/staleness", (steps - self.scored.policy_version).double())
        report.add("sampling/staleness_rollouts", number - self.begun, reduce="max")
        return report

    def state_dict(self) -> dict[str, Any]:
        """Tensors and JSON values."""
        numbers, seconds = self.ledger.state_dict(), dict(self.ledger.seconds)
        return {"scored": self.scored.to_state(), "numbers": numbers, "seconds": seconds, "begun": self.begun}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> MadeRollout:
        """The rollout whose `state_dict` this is."""
        return cls(ScoredRollout.from_state(state["scored"]), RunLedger.of_rollout(state["numbers"], state["seconds"]), state["begun"])


class RolloutsAhead:
    """Gives the trainer one rollout after the other; each is made with the weights from before the `ahead` rollouts that precede it.

    One of them is under way while the trainer learns, in a thread that begins and ends within a training step. So which weights make
    which rollout depends on nothing but its number. Between two steps nothing moves: an evaluation, a checkpoint or the end of the run
    finds the rollouts complete.
    """

    def __init__(self, ahead: int, source: RolloutCollector) -> None:
        """With 0 ahead each is made when it is asked for."""
        self.ahead, self._source = ahead, source
        self._ready = deque[MadeRollout]()
        self._under_way: Future[MadeRollout] | None = None
        self._thread: threading.Thread | None = None
        self._ended = 0.0
        self._side: SideGroup | None = None

    def next(self) -> MadeRollout:
        """The rollout that is to be learnt from now, the engine having the weights from before it; with some ahead, one more is begun."""
        learner = self._source.learner
        if self.ahead and self._side is None:
            self._side = SideGroup(learner.adapter.world_size)
        while len(self._ready) < max(1, self.ahead):
            self._ready.append(self._made(self._side or learner.adapter, RunLedger(learner.ledger.observers), learner.rollout))
        now = self._ready.popleft()
        if self._side is not None and len(self._ready) < self.ahead:
            self._source.rollouts.probe(now.scored)
            self._begin(self._side)
        return now

    def wait_for_background(self) -> None:
        """Wait for the rollout under way, if there is one, and report who waited for whom; whatever ended it is raised."""
        if self._under_way is None:
            return
        ledger, came = self._source.learner.ledger, time.perf_counter()
        with ledger.phase("wait_for_rollout"):
            while not wait([self._under_way], POLL_S).done:
                for observer in ledger.observers:
                    observer.on_wait()
        made, self._under_way = self._under_way.result(), None
        self._ready.append(made)
        ledger.add("perf/wait_for_trainer_s", max(0.0, came - self._ended), reduce="max")

    def close(self) -> None:
        """Leave a rollout that is not wanted any more to itself, once whatever it works with was closed."""
        self._under_way = None
        if self._thread is not None:
            self._thread.join(PATIENCE_S)

    def state_dict(self) -> list[dict[str, Any]]:
        """The rollouts that are still to be learnt from."""
        return [made.state_dict() for made in self._ready]

    def load_state_dict(self, state: Sequence[dict[str, Any]]) -> None:
        """Take back what `state_dict` gave."""
        self._ready = deque(map(MadeRollout.from_state, state))

    def _made(self, ranks: Ranks, ledger: RunLedger, number: int) -> MadeRollout:
        with torch.no_grad():
            return MadeRollout(self._source.collect(ranks, ledger), ledger, number)

    def _begin(self, ranks: Ranks) -> None:
        under_way, threads, number = Future[MadeRollout](), torch.get_num_threads(), self._source.learner.rollout

        def make() -> None:
            # a new thread of torch's has a number of its own
            torch.set_num_threads(threads)
            try:
                made = self._made(ranks, RunLedger(), number)
            except BaseException as error:
                under_way.set_exception(error)
            else:
                self._ended = time.perf_counter()
                under_way.set_result(made)

        self._under_way = under_way
        # the interpreter does not wait for it: an engine that hangs must not keep a run that has ended
        self._thread = threading.Thread(target=make, name="rollout ahead", daemon=True)
        self._thread.start()


def check_ahead(ahead: int, engine: RolloutEngine, algorithm: Algorithm) -> None:
    """Refuse what cannot be made ahead, and advise a correction where older weights would go unnoticed."""
    name = type(engine).__name__
    if ahead and engine.rests:
        raise ValueError(f"model.rollouts_ahead is {ahead}, and {name} gives its memory to the policy that learns: set it to 0")
    if ahead and engine.in_process:
        raise ValueError(
            f"model.rollouts_ahead is {ahead}, and {name} decodes with the trainer's own modules, whose weights move meanwhile: give it a "
            f"process of its own (model.engine: {{class_path: ProcessEngine, init_args: {{engine: {name}}}}}), or set rollouts_ahead to 0"
        )
    # the dtype decides nothing where rollouts are made ahead
    if ahead and algorithm.correction is None and old_from(algorithm, engine, ahead, torch.float32) != "engine":
        warnings.warn(
            f"model.rollouts_ahead is {ahead}, so the weights that sample a rollout are older than those that learn from it, and the old "
            "log-probs are the trainer's: nothing in the loss makes up for it. Set algorithm.correction, for example TruncatedImportance, "
            "or algorithm.old_logprobs to rollout if the engine's log-probs are exact",
            stacklevel=3,
        )
