"""A reward for programs that pass their tests."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lightrl import Prompt, RowReward, without_thoughts
from lightrl_code.examination import Pair, Task, passed_asserts, passed_pairs
from lightrl_code.sandbox import Bubblewrap, Limits, Sandbox, Unsafe

FENCE = re.compile(r"^[ \t]*```([^\n`]*)\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
PYTHON = frozenset({"python", "py", "python3"})
GRACE_S = 30.0
"""Seconds beyond a program's own limit after which the reward counts as failed, where nothing else is said."""


def code_of(completion: str) -> tuple[str, bool]:
    """The program in a completion, and whether it stood in a fence.

    Thoughts do not count, also those that are not closed. Of several fenced blocks the last one marked as Python is taken, else
    the last one that is not marked; an open fence reaches to the end. Without a fence the whole text is the program.
    """
    text = without_thoughts(completion)
    blocks = [(match[1].strip().lower(), match[2]) for match in FENCE.finditer(text)]
    for marks in (PYTHON, frozenset({""})):
        found = [code for mark, code in blocks if mark in marks]
        if found:
            return found[-1], True
    return text, False


class UnitTests(RowReward):
    """The fraction of its tests that the completion's program passes, run in a sandbox.

    R = tests passed / tests. The tests are in the column `tests`, or else in `answer`: a list of asserts; Python text with
    asserts at its top level or with a `check(candidate)` (then `entry_point` names the candidate); or a list of
    `{input, output}` for programs that read and print. A program that does not end in time, ends itself or uses more than it may
    fails the tests it has not passed by then.

    The tests run in another sandbox than the program. They call it by messages and get values of built-in types back, so a program
    can neither see an expected value nor touch an assert or a verdict.

    Source: Chen et al. 2021 (HumanEval), arXiv:2107.03374, section 2.
    """

    runs = "process"

    def __init__(
        self,
        continues: bool = False,
        partial: bool = True,
        in_place: bool = False,
        limit_s: float = 10.0,
        limit_memory_mb: int = 512,
        limit_disk_mb: int = 16,
        limit_output_kb: int = 1024,
        unsafe: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            continues: the completion continues the prompt, as in HumanEval: the prompt's text (of a conversation, its last message)
                stands before the program, and the tests may use what it defines. Needs an `entry_point`.
            partial: a program that passes some tests gets their fraction; false: 1 for all, else 0.
            in_place: tests see what the program changed in the arguments they gave. A program can then also change what a test
                compares with, so only for tasks that ask for it.
            limit_s: seconds of wall time for all tests of a completion together.
            limit_memory_mb: MiB of memory that a program may have.
            limit_disk_mb: MiB of files that it may write, in a `/tmp` of its own.
            limit_output_kb: KiB of output that it may print on one input.
            unsafe: run programs without bubblewrap, with limits on time and memory alone. They can then read and delete
                what you can.
            **kwargs: weight and the other arguments of every reward.

        Raises:
            ValueError: a limit is not above 0, `timeout_s` leaves no time for `limit_s`, or programs cannot be kept in on this
                machine and `unsafe` is false.
        """
        super().__init__(**kwargs)
        self.timeout_s = _timeout(limit_s, self.timeout_s, given=kwargs.get("timeout_s") is not None and self.runs == "process")
        limits = Limits(limit_s, limit_memory_mb, limit_disk_mb, limit_output_kb)
        for name, value in vars(limits).items():
            if value <= 0:
                raise ValueError(f"UnitTests needs limits above 0, got {value} for {name}")
        self.continues, self.partial, self.in_place, self.unsafe = continues, partial, in_place, unsafe
        self.limit_s, self.limit_memory_mb = limit_s, limit_memory_mb
        self.limit_disk_mb, self.limit_output_kb = limit_disk_mb, limit_output_kb
        self._sandbox = Unsafe(limits) if unsafe else _safe(limits)

    def score(
        self, prompt: Prompt, completion: str, *, tests: Any = None, answer: Any = None, entry_point: str | None = None, setup: str = ""
    ) -> float:
        """The fraction of tests passed.

        Args:
            prompt: its text goes before the program if `continues`.
            completion: the program, alone or in a fence.
            tests: as the class says; None: they stand in `answer`.
            answer: the tests, if there is no column `tests`.
            entry_point: the function that is tested, or an expression such as `Solution().add`.
            setup: code that stands before the program and whose names the tests may use.

        Raises:
            ValueError: the tests are missing or are none.
            RuntimeError: a sandbox did not start.
        """
        given = _tests(prompt, answer if tests is None else tests)
        code, fenced = code_of(completion)
        before = f"{setup}\n{_text(prompt)}" if self.continues else setup
        if self.continues and not entry_point:
            raise ValueError(f"prompt {prompt.id!r} has no entry_point, which a program that continues its prompt needs")
        if not code.strip():
            return 0.0
        # a whole function may follow the head that it was to continue, or stand by itself
        sources = [before + code, code] if self.continues and not fenced else [f"{before}\n{code}", code]
        if isinstance(given, str) or isinstance(given[0], str):
            task = Task(sources, given, before, entry_point, self.in_place)
            passed = passed_asserts(task, self._sandbox)
        else:
            pairs = [_pair(prompt, pair) for pair in given]
            if not any(pair.output.strip() for pair in pairs):
                raise ValueError(f"prompt {prompt.id!r}: no test expects an output, so every program that prints nothing would pass")
            passed = passed_pairs(sources, pairs, self._sandbox)
        return passed if self.partial else float(passed == 1.0)


def _timeout(limit_s: float, timeout_s: float, given: bool) -> float:
    """A program that is too slow has failed its tests; the reward's own time-out, for what goes wrong around it, comes later."""
    if given and timeout_s <= limit_s:
        raise ValueError(f"UnitTests needs timeout_s above limit_s, or it fails before the program does; got {timeout_s} and {limit_s}")
    return timeout_s if given else limit_s + GRACE_S


def _safe(limits: Limits) -> Sandbox:
    try:
        return Bubblewrap(limits)
    except ValueError as error:
        raise ValueError(
            f"UnitTests runs what a model writes and will not do so in the open: {error}. "
            "On a machine where nothing can be lost or read, unsafe: true goes without"
        ) from error


def _tests(prompt: Prompt, given: Any) -> str | Sequence[Any]:
    if isinstance(given, str) and given.strip():
        return given
    if isinstance(given, Sequence) and given and (all(isinstance(t, str) for t in given) or all(isinstance(t, Mapping) for t in given)):
        return given
    raise ValueError(
        f"prompt {prompt.id!r} has no tests: expected asserts as text or in a list, or a list of {{input, output}}, in the column "
        f"'tests' or in 'answer'; got {str(given)[:80]!r}"
    )


def _pair(prompt: Prompt, pair: Any) -> Pair:
    if not all(isinstance(pair.get(name), str) for name in ("input", "output")):
        raise ValueError(f"prompt {prompt.id!r}: a test must have the texts 'input' and 'output', got {str(dict(pair))[:80]}")
    return Pair(pair["input"], pair["output"])


def _text(prompt: Prompt) -> str:
    return prompt.text if prompt.text is not None else (prompt.messages or ({"content": ""},))[-1]["content"]
