"""`lightrl push` and `lightrl export --push`: an exported folder goes to the hub.

The files of the folder are listed before they are sent, and nothing else is. The token is that of HF_TOKEN or of `hf auth login`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lightrl.config import ConfigError
from lightrl.registry.commands import Commands
from lightrl_hub.upload import Target, prepare, upload

EPILOG = """\
  lightrl export --config grpo --ckpt_path last --out my_model --push owner/name
  lightrl push my_model owner/name --public --message "After 300 rollouts"
"""


def push(words: list[str]) -> int:
    """Carry out `lightrl push`."""
    parser = _parser("lightrl push")
    parser.add_argument("folder", metavar="FOLDER", help="that lightrl export has written")
    parser.add_argument("name", metavar="OWNER/NAME", help="of the repository")
    options = parser.parse_args(words)
    target = _target(options, options.name)
    upload(target, Path(options.folder).expanduser(), prepare(target))
    return 0


def export_and_push(words: list[str]) -> int:
    """Carry out `lightrl export` with `--push`; what the hub would refuse is said before the checkpoint is read."""
    parser = _parser("lightrl export")
    parser.add_argument("--push", metavar="OWNER/NAME", required=True, help="the repository")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="where to write; this and all other options: lightrl export --help")
    options, rest = parser.parse_known_args(words)
    target = _target(options, options.push)
    known = prepare(target)
    verb, rest = Commands().find(["lightrl-core:export", *rest, "--out", options.out])
    if status := verb().run(rest):
        return status
    upload(target, Path(options.out).expanduser(), known)
    return 0


def _parser(verb: str) -> argparse.ArgumentParser:
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=verb, description=__doc__, epilog=EPILOG, formatter_class=kind, allow_abbrev=False)
    parser.add_argument("--public", action="store_true", help="let everybody read the repository; else it is private")
    parser.add_argument("--update", action="store_true", help="push into a repository that has files: those of the same name are replaced")
    parser.add_argument("--message", metavar="TEXT", help="of the commit; by default: Upload FOLDER, exported by lightrl")
    return parser


def _target(options: argparse.Namespace, name: str) -> Target:
    if options.message is not None and not options.message.strip():
        raise ConfigError("--message", "is empty.", "Leave it out, or say what is new.")
    return Target(name, options.public, options.update, options.message)
