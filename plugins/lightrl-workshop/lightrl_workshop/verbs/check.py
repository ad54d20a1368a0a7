"""`lightrl plugins check NAME`: hooks, names, contract and configs of a plugin, checked in a fresh process."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from lightrl.cli import naming_slow_imports
from lightrl.config import ConfigError, report
from lightrl.registry import PluginRecord, UnknownName, record_named, registry
from lightrl_workshop.verbs.check_arguments import read_arguments, refuse_unknown
from lightrl_workshop.verbs.named_plugin import name_of


def check(words: list[str]) -> int:
    """Check plugins in a process of their own, in which nothing has been imported or registered by hand.

    Returns:
        0 if all is well, 1 if something is wrong, 2 if the request is.

    Raises:
        ConfigError: arguments that are none.
    """
    parser = argparse.ArgumentParser(prog="lightrl plugins check", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="of a plugin or of its distribution, or its folder")
    parser.add_argument("--arguments", metavar="YAML", help="for classes with required arguments, as a file or {Class: {name: value}}")
    options = parser.parse_args(words)
    command = [sys.executable, "-m", "lightrl_workshop.verbs.check", json.dumps(read_arguments(options.arguments)), *options.names]
    return subprocess.run(command, check=False).returncode


def main(arguments: str, *names: str) -> int:
    """The work of the fresh process."""
    with naming_slow_imports():
        return _checked(arguments, names)


def _checked(arguments: str, names: Sequence[str]) -> int:
    try:
        records = [record_named(name_of(name)) for name in names]
        refuse_unknown(records, json.loads(arguments))
    except UnknownName as error:
        return report(ConfigError("", str(error)))
    except ConfigError as error:
        return report(error)
    return max(_check(record, arguments) for record in records)


@dataclass(frozen=True)
class Finding:
    """One line of the answer."""

    text: str
    """The check that passed; or the fault, and what to type."""
    wrong: bool = False
    """It is a fault."""
    excepted: bool = False
    """It is a check that the class says it does not keep."""


def _check(record: PluginRecord, arguments: str) -> int:
    sys.stdout.write(f"{record.name}: {record.distribution} {record.version}, {record.api}, {record.location or record.module}\n")
    wrong = _print_findings(_loading(record)) or _print_findings([*_names(record), *_contract(record, arguments)])
    sys.stdout.write(f"{wrong} wrong. See: lightrl plugins show {record.name}\n" if wrong else "All is well.\n")
    sys.stdout.flush()
    return 1 if wrong else 0


def _loading(record: PluginRecord) -> list[Finding]:
    if record.error:
        where = f"\n{record.traceback.strip()}" if record.traceback else ""
        return [Finding(f"it does not load: {record.error}{where}", wrong=True)]
    registered = [f"{kind} {cls.__name__}" for kind, classes in record.classes.items() for cls in classes]
    if not registered and not record.configs:
        return [Finding("it registers nothing: decorate a function such as lightrl_advantages with lightrl.hookimpl", wrong=True)]
    return [Finding(f"it loads, its hooks are valid, and it registers {', '.join(registered) or 'configs alone'}")]


def _names(record: PluginRecord) -> list[Finding]:
    """A finding for each name that another plugin registers too, so that a config would have to say which is meant."""
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
    return taken or [Finding("no other plugin registers one of its names")]


def _contract(record: PluginRecord, arguments: str) -> list[Finding]:
    from lightrl_workshop.verbs.contract_run import run_contract

    # pytest keeps what is written while it runs
    sys.stdout.flush()
    sys.stderr.write("running its contract tests, and a step of each config ...\n")
    run = run_contract(record.name, arguments)
    passed = {"checks of its contracts pass": "test_contract_check", "of its configs take a step on a CPU": "test_config"}
    good = [Finding(f"{run.passed[test]} {text}") for text, test in passed.items() if run.passed.get(test)]
    stated = [Finding(text, excepted=True) for text in run.excepted]
    return [*good, *stated, *(Finding(message, wrong=True) for message in run.failed)]


def _print_findings(findings: list[Finding]) -> int:
    """Print them, and count the faults."""
    for finding in findings:
        first, *rest = finding.text.splitlines()
        sign = "wrong" if finding.wrong else "but  " if finding.excepted else "ok   "
        sys.stdout.write(f"  {sign}  {first}\n")
        sys.stdout.writelines(f"         {line}\n" for line in rest)
    return sum(finding.wrong for finding in findings)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
