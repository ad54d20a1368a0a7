"""A run of pytest over the contract and the configs of one plugin."""

import contextlib
import io
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

MODULE = "lightrl_workshop.verbs.checked_plugin"
"""The module that pytest runs."""
PLUGIN = "LIGHTRL_CHECKED_PLUGIN"
"""The environment variable that names the plugin."""
ARGUMENTS = "LIGHTRL_CHECKED_ARGUMENTS"
"""The environment variable with arguments for the plugin's classes, as JSON."""
ONLY = "LIGHTRL_CHECKED_ONLY"
"""The environment variable with the class that is checked alone, or `contract`; empty: all is checked."""


@dataclass(eq=False)
class ContractRun:
    """A pytest plugin that keeps the messages of failed tests and counts those that pass; pytest wants it hashable."""

    passed: dict[str, int] = field(default_factory=dict)
    """The number of passed cases by test function."""
    failed: list[str] = field(default_factory=list)
    """The message of each failed case."""
    excepted: list[str] = field(default_factory=list)
    """Of each case from which the class states an exception: class and check, and why it may fail; or that it passes."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each phase of each case."""
        if report.failed:
            self.failed.append(_message(report))
        elif hasattr(report, "wasxfail"):
            self.excepted.append(_exception(report))
        elif report.when == "call":
            test = report.location[2].partition("[")[0]
            self.passed[test] = self.passed.get(test, 0) + 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called by pytest when it has collected the cases."""
        if report.failed:
            self.failed.append(_message(report))


def run_contract(name: str, arguments: str, only: str = "") -> ContractRun:
    """Run the checks and the configs of a plugin."""
    # pytest plugins that happen to be installed have no say in it
    os.environ |= {PLUGIN: name, ARGUMENTS: arguments, ONLY: only, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # the module reads them when it is imported
    sys.modules.pop(MODULE, None)
    run, printed = ContractRun(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        empty = Path(folder) / "pytest.ini"
        empty.write_text("[pytest]\n")
        options = ["-c", str(empty), "--rootdir", folder, "-p", "no:cacheprovider", "-p", "no:terminal"]
        status = pytest.main([*options, "--pyargs", MODULE], plugins=[run])
    if status not in (0, 1) and not run.failed:
        run.failed.append(f"pytest ended with status {int(status)}: {printed.getvalue().strip()}")
    return run


def _exception(report: pytest.TestReport) -> str:
    _, _, case = report.location[2].partition("[")
    passes = "\nit passes here: remove the exception if it always does" if report.passed else ""
    return f"{case.removesuffix(']')}, a stated exception: {report.wasxfail}{passes}"


def _message(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return text.partition("BrokenContract: ")[2] or text.removeprefix("Failed: ").removeprefix("AssertionError: ")
