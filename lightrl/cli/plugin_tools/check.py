"""`lightrl plugins check NAME`: a plugin's hooks, names, promises and configs, looked at in a fresh process."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightrl.config.errors import ConfigError, report
from lightrl.config.yaml_files import parse_yaml, read_config

if TYPE_CHECKING:
    from lightrl.config.choice import Choice
    from lightrl.registry.loader import PluginRecord

MODULE = "lightrl.cli.plugin_tools.checked_plugin"
"""What pytest runs."""
CHECKED = "LIGHTRL_CHECKED_PLUGIN"
"""The environment variable that tells it which plugin."""
ARGUMENTS = "LIGHTRL_CHECKED_ARGUMENTS"
"""The one with arguments for the plugin's classes, as JSON."""


def check(names: list[str], arguments: str | None) -> int:
    """Check plugins in a process of their own, in which nothing has been imported or registered by hand.

    Args:
        names: of plugins or their distributions, or folders of their projects.
        arguments: YAML, or a file with it: by class name, what classes with required arguments are built with.

    Returns:
        0 if all is well, 1 if something is wrong, 2 if the request is.
    """
    words = [sys.executable, "-m", "lightrl.cli.plugin_tools.check", json.dumps(_arguments(arguments)), *names]
    return subprocess.run(words, check=False).returncode


def main(arguments: str, *names: str) -> int:
    """What the fresh process does."""
    from lightrl.cli.plugin_tools.plugins import name_of, record_named

    try:
        records = [record_named(name_of(name)) for name in names]
        if find_spec("pytest") is None:
            raise ConfigError(
                "lightrl plugins check", "pytest is not installed, and it runs the contract tests.", "Type: pip install pytest"
            )
        _refuse_unknown(records, json.loads(arguments))
    except ConfigError as error:
        return report(error)
    return max(_check(record, arguments) for record in records)


def _refuse_unknown(records: list[PluginRecord], given: dict[str, dict[str, Any]]) -> None:
    """Refuse arguments that nothing would read.

    Raises:
        ConfigError: a class that is not checked, or an argument that it does not have or that has another type.
    """
    from lightrl.config.errors import closest
    from lightrl.config.merge import Merger

    checked = {cls.__name__: (kind, cls) for r in records for kind, classes in r.classes.items() for cls in classes}
    for name, arguments in given.items():
        if name not in checked:
            raise ConfigError("--arguments", f"no class {name!r} is checked.{closest(name, checked)} There are: {', '.join(checked)}.")
        Merger().arguments(choice_of(*checked[name]), arguments, name, "--arguments")


def choice_of(kind: str, cls: type[Any]) -> Choice:
    """A class of a kind, to be given arguments."""
    from lightrl.config.choice import Choice
    from lightrl.config.slots import Slot
    from lightrl.kinds import KINDS

    base = KINDS[kind].base_class
    return Choice(cls, Slot("part", base, base, kind))


def _check(record: PluginRecord, arguments: str) -> int:
    sys.stdout.write(f"{record.name}: {record.distribution} {record.version}, {record.api}, {record.location or record.module}\n")
    wrong = _print_findings(_loading(record)) or _print_findings([*_names(record), *_contract(record, arguments)])
    sys.stdout.write(f"{wrong} wrong. See: lightrl plugins show {record.name}\n" if wrong else "All is well.\n")
    sys.stdout.flush()
    return 1 if wrong else 0


@dataclass(frozen=True)
class Finding:
    """One line of the answer."""

    what: str
    """What was looked at, or what is wrong and what to type."""
    wrong: bool = False
    """It is not as it should be."""


@dataclass
class CheckResults:
    """A pytest plugin that keeps what failed and counts what passed."""

    passed: dict[str, int] = field(default_factory=dict)
    """By test function, how many of its cases."""
    failed: list[str] = field(default_factory=list)
    """The message of each case that failed."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Called by pytest for each phase of each case."""
        if report.failed:
            self.failed.append(_message(report))
        elif report.when == "call":
            test = report.location[2].partition("[")[0]
            self.passed[test] = self.passed.get(test, 0) + 1

    def pytest_collectreport(self, report: Any) -> None:
        """Called by pytest when it has collected the cases."""
        if report.failed:
            self.failed.append(_message(report))


def _loading(record: PluginRecord) -> list[Finding]:
    if record.error:
        where = f"\n{record.traceback.strip()}" if record.traceback else ""
        return [Finding(f"it does not load: {record.error}{where}", wrong=True)]
    registered = [f"{kind} {cls.__name__}" for kind, classes in record.classes.items() for cls in classes]
    if not registered and not record.configs:
        return [Finding("it registers nothing: decorate a function such as lightrl_advantages with lightrl.hookimpl", wrong=True)]
    return [Finding(f"it loads, its hooks are valid, and it registers {', '.join(registered) or 'configs alone'}")]


def _names(record: PluginRecord) -> list[Finding]:
    """Whether other plugins register the same names, so that a config would have to say which is meant."""
    from lightrl.registry.classes import registry

    others = [r for r in registry().records if r is not record and not r.error]
    taken = [
        Finding(
            f"{kind} {cls.__name__} is registered by {r.distribution} too: rename it, or a config has to say which is meant", wrong=True
        )
        for kind, classes in record.classes.items()
        for cls in classes
        for r in others
        if cls.__name__ in {other.__name__ for other in r.classes.get(kind, [])}
    ]
    taken += [
        Finding(
            f"config {path.stem} is brought by {r.distribution} too: rename the file, or --config has to say which is meant", wrong=True
        )
        for path in record.configs
        for r in others
        if path.stem in {other.stem for other in r.configs}
    ]
    return taken or [Finding("its names are its own")]


def _contract(record: PluginRecord, arguments: str) -> list[Finding]:
    """What pytest finds in the classes and configs."""
    import pytest

    # plugins of pytest that happen to be installed have no say in what a plugin of ours promises
    os.environ |= {CHECKED: record.name, ARGUMENTS: arguments, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # it reads them when it is imported
    sys.modules.pop(MODULE, None)
    outcomes, said = CheckResults(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
        empty = Path(folder) / "pytest.ini"
        empty.write_text("[pytest]\n")
        options = ["-c", str(empty), "--rootdir", folder, "-p", "no:cacheprovider", "-p", "no:terminal"]
        status = pytest.main([*options, "--pyargs", MODULE], plugins=[outcomes])
    found = [Finding(message, wrong=True) for message in outcomes.failed]
    if status not in (0, 1) and not found:
        found.append(Finding(f"pytest ended with status {int(status)}: {said.getvalue().strip()}", wrong=True))
    for test, what in (("test_contract_check", "contracts are kept"), ("test_config", "configs take a step on a CPU")):
        if count := outcomes.passed.get(test):
            found.insert(0, Finding(f"{count} {what}"))
    return found


def _message(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return text.partition("BrokenContract: ")[2] or text.removeprefix("Failed: ").removeprefix("AssertionError: ")


def _print_findings(findings: list[Finding]) -> int:
    """Print them, and count those that are wrong."""
    for finding in findings:
        first, *rest = finding.what.splitlines()
        sys.stdout.write(f"  {'wrong' if finding.wrong else 'ok   '}  {first}\n")
        sys.stdout.writelines(f"         {line}\n" for line in rest)
    return sum(finding.wrong for finding in findings)


def _arguments(given: str | None) -> dict[str, Any]:
    """The mapping of class names to arguments.

    Raises:
        ConfigError: it is no such mapping.
    """
    if given is None:
        return {}
    import yaml

    try:
        value = read_config(given) if Path(given).suffix in (".yaml", ".yml") else parse_yaml(given)
        text = json.dumps(value)
    except (yaml.YAMLError, TypeError) as error:
        raise ConfigError("--arguments", f"bad YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(value, dict) or not all(isinstance(arguments, dict) for arguments in value.values()):
        raise ConfigError(
            "--arguments", f"expected {{Class: {{argument: value}}}}, got {text}.", "Type for example: '{MyPart: {length: 9}}'"
        )
    return value


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
