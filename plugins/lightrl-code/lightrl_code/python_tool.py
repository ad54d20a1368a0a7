"""Python as a tool: a program that the policy writes runs in the sandbox, and its output is the result."""

import functools

from lightrl_code.examination import run_script
from lightrl_code.sandbox import Bubblewrap, Limits, Sandbox
from lightrl_code.tools.tool_run import ToolUnavailableError

# a time limit below the one that the environment has by itself, so that the policy is told what it was
LIMITS = Limits(seconds=4.0, output_kb=64)
WITH_ERRORS = """
import sys, traceback
try:
    exec(compile({code!r}, "program.py", "exec"), {{"__name__": "__main__"}})
except Exception as error:
    sys.stdout.flush()
    traceback.print_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next), file=sys.stdout)
"""
"""The program's own standard error is closed, so the sandbox prints what it raises."""


def run_python(code: str) -> str:
    """Run a Python program and return what it prints. It has the standard library, no network and no files, and 4 seconds.

    Args:
        code: The program. Every call starts anew: nothing of an earlier program is left.

    Returns:
        The standard output of the program, followed by the traceback if it raised an exception.
    """
    done = run_script([WITH_ERRORS.format(code=code)], "", _sandbox(), LIMITS.seconds)
    if done.seconds >= LIMITS.seconds:
        return f"{done.output or ''}Error: the program did not end within {LIMITS.seconds:g} s"
    if done.output is None:
        return f"Error: the program printed more than {LIMITS.output_kb} KiB"
    if done.status != 0:
        return f"{done.output}Error: the program ended with exit status {done.status}"
    return done.output or "The program printed nothing: use print() to see a value."


@functools.cache
def _sandbox() -> Sandbox:
    try:
        return Bubblewrap(LIMITS)
    except ValueError as error:
        raise ToolUnavailableError(f"run_python runs what a policy writes, and will not do so in the open: {error}") from error
