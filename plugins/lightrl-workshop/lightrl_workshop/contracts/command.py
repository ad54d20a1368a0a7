"""The contract of every command."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys

from lightrl.command import Command
from lightrl_workshop.checks.check import Make, check_documentation, contract_check, expect

KIND = "command"
SLOW = ("torch", "lightning", "transformers")
"""Modules that take seconds to import."""


@contract_check(KIND, "its class is documented, and its name is made of words")
def named(make: Make[Command]) -> None:
    cls = type(make())
    check_documentation(cls)
    plain = "".join(word.capitalize() for word in cls.words() if len(word) > 1)
    expect(plain == cls.__name__, f"{cls.__name__} is no name made of words, such as RewardTest")


@contract_check(KIND, "it has a line in the list of commands")
def listed(make: Make[Command]) -> None:
    """Pairs of the words that follow it, and what they do."""
    usage = make().usage
    expect(bool(usage), "usage has no line: write one such as (('--config FILE', 'what it does'),)")
    expect(all(re.search(r"\w", summary) for _, summary in usage), f"a line of usage does not say what it does: {usage}")


@contract_check(KIND, "importing it imports nothing slow")
def light(make: Make[Command]) -> None:
    """`lightrl --help` imports the modules of all commands."""
    module = type(make()).__module__
    code = f"import sys, {module}; print(*[name for name in {SLOW!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"{module} cannot be imported in a fresh process: {done.stderr.strip()}")
    expect(not done.stdout.strip(), f"importing {module} imports {done.stdout.strip()}: import them in run()")


@contract_check(KIND, "--help explains it")
def helps(make: Make[Command]) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            status = make().run(["--help"])
        except SystemExit as end:
            status = end.code
    expect(status in (0, None), f"it ends with status {status}")
    expect(bool(out.getvalue().strip()), "it prints nothing")
