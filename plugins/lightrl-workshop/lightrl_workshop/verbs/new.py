"""`lightrl plugins new NAME --kind KIND`: a package with a working part and tests, written from templates."""

import argparse
import keyword
import re
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template

import yaml

from lightrl.config import ConfigError, closest, parse_yaml
from lightrl.hookspecs import COMMANDS, GROUP
from lightrl.kinds import COMMAND, KINDS, Kind
from lightrl.prompt import JSON

TEMPLATES = files("lightrl_workshop.verbs") / "templates"
DOCSTRING = " (one sentence, the formula, `Source:`), its arguments"
"""The parts of a class that its README says to change first."""
CONFIG = """\
3. `{module}/configs/{module}.yaml`: a config that is installed with the package. `--config {module}` finds it wherever the package is
   installed, and `lightrl plugins check` takes a step of it.
"""
"""The advice of a README about the config."""


def new(words: list[str]) -> int:
    """Write the package, or nothing and raise a ConfigError: a name or folder that cannot be or is taken, or an unknown kind."""
    parser = argparse.ArgumentParser(prog="lightrl plugins new", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="of the package, such as my-idea")
    parser.add_argument("--kind", default="algorithm", help=f"kind of its class: {', '.join(k.slug for k in KINDS.values())} (algorithm)")
    parser.add_argument("--class", dest="class_name", metavar="NAME", help="of its class; by default made of the package's, such as MyIdea")
    parser.add_argument("--out", metavar="FOLDER", help="folder to write; by default NAME in the working directory")
    options = parser.parse_args(words)
    name, chosen = options.name, _kind(options.kind)
    folder = Path(options.out if options.out is not None else name).expanduser()
    values = _values(name, chosen, options.class_name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        there = f"{str(folder)!r} is already there and stays as it is."
        raise ConfigError(f"lightrl plugins new {name}", there, "Type another: --out FOLDER")
    for path, text in contents(chosen, values).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{file}\n")
    sys.stdout.write(f"Install it: pip install -e {folder}\nThen: lightrl plugins check {name}. ")
    sys.stdout.write(f"What to change first: {folder / 'README.md'}\n")
    return 0


def contents(kind: Kind, values: dict[str, str]) -> dict[str, str]:
    """Every file of the package by its path, from the templates."""
    module, own = values["module"], _sections(kind, values)
    files = {
        "pyproject.toml": _filled("package/pyproject.toml.tmpl", values),
        f"{module}/__init__.py": own["part"] + _filled("package/hook.py.tmpl", values),
        f"{module}/py.typed": "",
        f"tests/test_{module}_contract.py": _filled("package/test.py.tmpl", values),
        f"tests/test_{module}.py": own["test"],
    }
    if kind.places:
        settings = yaml.safe_dump(_settings(kind, own.get("config"), values["class_name"]), sort_keys=False)
        files[f"{module}/configs/{module}.yaml"] = _filled("package/config.yaml.tmpl", values) + settings
        short = "--rollouts 20" if "rollouts" in parse_yaml(settings) else "--trainer.max_steps 20"
        advice = {"try_it": f"fit --config {module} {short}", "and_more": DOCSTRING, "about_config": CONFIG.format(module=module)}
    else:
        # a command, which no config names, and whose name is what is typed
        advice = {"try_it": f"{values['verb']} --help", "and_more": ", its name and its `usage`", "about_config": ""}
    advice["and_module"] = "" if values["group"] == GROUP else f", in a module of its own with an entry point in the group `{GROUP}`"
    return files | {"README.md": _filled("package/README.md.tmpl", values | advice)}


def _sections(kind: Kind, values: dict[str, str]) -> dict[str, str]:
    """A kind's template: `part`, `test`, and `config` where its class needs more of a config than its place."""
    part, *others = re.split(r"^=== (\w+)\n", _filled(f"kinds/{kind.slug}.tmpl", values), flags=re.MULTILINE)
    return {"part": part, **dict(zip(others[::2], others[1::2], strict=True))}


def _values(name: str, kind: Kind, class_name: str | None) -> dict[str, str]:
    from lightrl.registry import registry

    module = name.replace("-", "_")
    class_name = class_name or "".join(word.capitalize() for word in name.removeprefix("lightrl-").split("-"))
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(module):
        raise ConfigError("lightrl plugins new", f"{name!r} is no name for a package: small letters, digits and hyphens, such as my-idea.")
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", class_name) or keyword.iskeyword(class_name):
        raise ConfigError("--class", f"{class_name!r} is no name for a class: a capital, then letters and digits, such as MyIdea.")
    if find_spec(module) is not None:
        raise ConfigError("lightrl plugins new", f"a module named {module!r} is already installed: choose another name.")
    taken = [distribution for distribution, cls in registry().of_kind(kind.title) if cls.__name__ == class_name]
    if taken:
        problem = f"{taken[0]} registers a {kind.title} named {class_name!r}: choose another name, or type --class NAME."
        raise ConfigError("lightrl plugins new", problem)
    methods = sorted(getattr(kind.base_class, "__abstractmethods__", ())) or ["__init__"]
    return {
        "name": name,
        "module": module,
        "class_name": class_name,
        "verb": " ".join(re.findall(r"[A-Z][a-z0-9]*", class_name)).lower(),
        "kind": kind.title,
        "hook": kind.hook,
        "group": COMMANDS if kind is COMMAND else GROUP,
        "method": "`, `".join(methods),
        "question": kind.question,
    }


def _settings(kind: Kind, own: str | None, class_name: str) -> JSON:
    """The config that all templates share, with the class at its place, or with the settings of a kind that needs more than that."""
    base = parse_yaml((TEMPLATES / "package" / "config_base.yaml").read_text(encoding="utf-8"))
    return _placed(base, kind.places[0].split("."), class_name) if own is None else _laid(base, parse_yaml(own))


def _placed(base: JSON, place: list[str], class_name: str) -> JSON:
    """A config with a class at a place, under `init_args` of the classes on the way there."""
    if not place or not isinstance(base, dict):
        return class_name
    if "class_path" in base:
        place = ["init_args", *place]
    inner = base.get(place[0]) or {}
    return {**base, place[0]: _placed(inner, place[1:], class_name)}


def _laid(under: JSON, over: JSON) -> JSON:
    """A mapping over another; another class replaces a mapping, and null removes a key."""
    if (
        not isinstance(under, dict)
        or not isinstance(over, dict)
        or over.get("class_path", under.get("class_path")) != under.get("class_path")
    ):
        return over
    merged = {key: _laid(value, over[key]) if key in over else value for key, value in under.items()}
    merged |= {key: value for key, value in over.items() if key not in under}
    return {key: value for key, value in merged.items() if value is not None}


def _filled(template: str, values: dict[str, str]) -> str:
    return Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)


def _kind(text: str) -> Kind:
    by_slug = {kind.slug: kind for kind in KINDS.values()}
    wanted = text.lower().replace(" ", "-").replace("_", "-")
    if wanted not in by_slug:
        raise ConfigError("--kind", f"there is no kind {text!r}.{closest(wanted, by_slug)} Kinds: {', '.join(by_slug)}.")
    return by_slug[wanted]
