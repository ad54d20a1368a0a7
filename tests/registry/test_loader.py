"""Real throwaway packages, installed into a folder: whatever one of them does, the others still load."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lightrl.registry.classes import Registry, UnknownName
from lightrl.registry.loader import load_plugins

GOOD = """
from lightrl import DecoupledClip, hookimpl

class Gentle(DecoupledClip):
    "A clip scheme that works."

@hookimpl
def lightrl_clip_schemes():
    return [Gentle]
"""


class Site:
    """A folder of installed distributions, which are loaded for one look at them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, name: str, code: str, value: str | None = None) -> None:
        module = name.replace("-", "_")
        (self.folder / f"{module}.py").write_text(code)
        info = self.folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[lightrl.v1]\n{name} = {value or module}\n")

    def report(self, *ask: str, limit: str | None = None) -> dict[str, Any]:
        """The records that are found with this folder on the path, and the clip schemes that these names mean."""
        before = set(sys.modules)
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(self.folder))
            patch.delenv("LIGHTRL_PLUGINS", raising=False) if limit is None else patch.setenv("LIGHTRL_PLUGINS", limit)
            found = Registry(load_plugins())
            answers = {name: answer(found, name) for name in ask}
            for name in {name for name in sys.modules if (self.folder / f"{name}.py").is_file()} - before:
                del sys.modules[name]
        records = {record.name: record for record in found.records}
        return {"records": records, "order": list(records), "answers": answers}


def answer(found: Registry, name: str) -> str:
    try:
        cls = found.resolve("clip scheme", name, key="model.algorithm.clip")
    except UnknownName as error:
        return str(error)
    return f"{cls.__module__}.{cls.__name__}"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    out = Site(tmp_path)
    out.install("aaa-good", GOOD)
    out.install("zzz-good", GOOD.replace("Gentle", "Soft"))
    return out


BROKEN = {
    "raises on import": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    "syntax error": ("def broken(:", "SyntaxError"),
    "exits on import": ("raise SystemExit(3)", "SystemExit: 3"),
    "unknown hook": (
        "from lightrl import hookimpl\n@hookimpl\ndef lightrl_clips():\n    return []",
        "unknown hook 'lightrl_clips'",
    ),
    "hook with an argument": (
        "from lightrl import hookimpl\n@hookimpl\ndef lightrl_clip_schemes(config):\n    return []",
        "config",
    ),
    "hook raises": (
        "from lightrl import hookimpl\n@hookimpl\ndef lightrl_rewards():\n    raise RuntimeError('no licence')",
        "RuntimeError: no licence",
    ),
    "returns nothing": (
        "from lightrl import hookimpl\n@hookimpl\ndef lightrl_rewards():\n    pass",
        "hook lightrl_rewards must return a list of classes, got None",
    ),
    "returns a string": (
        "from lightrl import hookimpl\n@hookimpl\ndef lightrl_rewards():\n    return 'Reward'",
        "hook lightrl_rewards must return a list of classes, got 'Reward'",
    ),
    "returns an instance": (
        "from lightrl import NoClip, hookimpl\n@hookimpl\ndef lightrl_clip_schemes():\n    return [NoClip()]",
        "which is not a subclass of lightrl.parts.clip.ClipScheme",
    ),
    "not a subclass": (
        "from lightrl import NoClip, hookimpl\nclass Mine(NoClip): pass\n@hookimpl\ndef lightrl_rewards():\n    return [Mine]",
        "which is not a subclass of lightrl.parts.reward.Reward",
    ),
    "abstract": (
        "from lightrl import RowReward, hookimpl\nclass Mine(RowReward): pass\n@hookimpl\ndef lightrl_rewards():\n    return [Mine]",
        "returned Mine, which leaves ['score'] abstract",
    ),
    "two of one name": (
        "from lightrl import NoClip, hookimpl\nA = type('Mine', (NoClip,), {})\nB = type('Mine', (NoClip,), {})\n"
        "@hookimpl\ndef lightrl_clip_schemes():\n    return [A, B]",
        "hook lightrl_clip_schemes returned two classes named Mine",
    ),
    "name of the core": (
        "from lightrl import NoClip, hookimpl\nclass DecoupledClip(NoClip): pass\n"
        "@hookimpl\ndef lightrl_clip_schemes():\n    return [DecoupledClip]",
        "it registers DecoupledClip (clip scheme), and names of the core are reserved: rename the class",
    ),
}


@pytest.fixture(scope="module")
def with_broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The records where every broken plugin is installed beside two good ones."""
    site = Site(tmp_path_factory.mktemp("site"))
    site.install("aaa-good", GOOD)
    site.install("zzz-good", GOOD.replace("Gentle", "Soft"))
    for what, (code, _) in BROKEN.items():
        site.install(what.replace(" ", "-"), code)
    return site.report("Gentle", "Soft", "DecoupledClip", "Missing")


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_plugin_is_a_record(with_broken: dict[str, Any], what: str) -> None:
    name = what.replace(" ", "-")
    broken = with_broken["records"][name]
    assert BROKEN[what][1] in broken.error
    assert (broken.distribution, broken.version) == (name, "1.0")
    assert f"Plugin '{name}' ({name} 1.0) did not load: " in with_broken["answers"]["Missing"]


def test_the_others_still_load(with_broken: dict[str, Any]) -> None:
    assert with_broken["answers"]["Gentle"] == "aaa_good.Gentle"
    assert with_broken["answers"]["Soft"] == "zzz_good.Soft"
    assert with_broken["answers"]["DecoupledClip"] == "lightrl.parts.clip.DecoupledClip"
    assert with_broken["order"][0] == "lightrl"


def test_a_traceback_says_where_a_plugin_failed(with_broken: dict[str, Any]) -> None:
    traceback = with_broken["records"]["hook-raises"].traceback
    assert "hook_raises.py" in traceback
    assert "line 4, in lightrl_rewards" in traceback


def test_what_a_good_plugin_registers_and_where_it_comes_from(site: Site) -> None:
    good = site.report()["records"]["aaa-good"]
    assert good.error is None
    assert {kind: [cls.__name__ for cls in classes] for kind, classes in good.classes.items()} == {"clip scheme": ["Gentle"]}
    assert good.location == str(site.folder / "aaa_good.py")


def test_an_object_inside_a_module_can_be_the_plugin(site: Site) -> None:
    code = GOOD.replace("@hookimpl\ndef", "class Plugin:\n    @hookimpl\n    def").replace("():\n    return", "(self):\n        return")
    site.install("mmm-object", code + "\nplugin = Plugin()\n", value="mmm_object:plugin")
    found = site.report()["records"]["mmm-object"]
    assert found.error is None
    assert {kind: [cls.__name__ for cls in classes] for kind, classes in found.classes.items()} == {"clip scheme": ["Gentle"]}
    assert found.location.endswith("mmm_object.py")


def test_a_name_that_two_plugins_register_is_refused_and_the_distribution_decides(site: Site) -> None:
    site.install("bbb-other", GOOD)
    found = site.report("Gentle", "aaa-good:Gentle", "bbb-other:Gentle", "bbb_other.Gentle", "ccc:Gentle")["answers"]
    assert found["Gentle"] == (
        "model.algorithm.clip: 2 plugins register a clip scheme named 'Gentle'. Write aaa-good:Gentle or bbb-other:Gentle."
    )
    assert found["aaa-good:Gentle"] == "aaa_good.Gentle"
    assert found["bbb-other:Gentle"] == found["bbb_other.Gentle"] == "bbb_other.Gentle"
    assert "no clip scheme is named 'ccc:Gentle'" in found["ccc:Gentle"]


@pytest.mark.parametrize(
    ("limit", "loaded"),
    [("", {"lightrl"}), ("zzz-good", {"lightrl", "zzz-good"}), (" aaa-good , zzz-good", {"lightrl", "aaa-good", "zzz-good"})],
)
def test_the_environment_limits_which_plugins_load(site: Site, limit: str, loaded: set[str]) -> None:
    found = site.report("Gentle", limit=limit)
    assert set(found["records"]) == loaded
    assert ("no clip scheme is named 'Gentle'" in found["answers"]["Gentle"]) == ("aaa-good" not in loaded)


def test_a_plugin_that_is_not_wanted_is_not_even_imported(site: Site) -> None:
    site.install("mmm-broken", "raise SystemExit('imported')")
    assert "mmm-broken" not in site.report(limit="aaa-good")["records"]


def test_a_wanted_plugin_that_is_not_installed_is_told_of(site: Site) -> None:
    found = site.report("Gentle", limit="aaa-god")
    assert "no installed plugin has this name, which LIGHTRL_PLUGINS gives; there are:" in found["records"]["aaa-god"].error
    assert "Plugin 'aaa-god' (not installed) did not load: no installed plugin" in found["answers"]["Gentle"]


def test_loading_plugins_does_not_import_lightning(site: Site) -> None:
    code = (
        "import sys; from lightrl.registry.classes import registry; registry(); "
        "print([m for m in ('lightning', 'transformers', 'datasets', 'deepspeed') if m in sys.modules])"
    )
    settings = {**os.environ, "PYTHONPATH": str(site.folder), "LIGHTRL_PLUGINS": "aaa-good"}
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=settings, check=True).stdout.strip() == "[]"


UNRULY = {
    "raises KeyboardInterrupt": ("raise KeyboardInterrupt", "it raised KeyboardInterrupt"),
    "raises its own": ("class Own(BaseException): pass\nraise Own('mine')", "it raised Own: mine"),
    "has no words": ("class Own(Exception):\n    def __str__(self): raise ValueError\nraise Own", "Own: <exception str() failed>"),
    "exits at once": ("import os\nos._exit(0)", "it called os._exit(0)"),
    "closes stdout": ("import sys\nsys.stdout.close()", "it closed stdout"),
    "closes stderr and 1": ("import os, sys\nsys.stderr.close()\nos.close(1)", "it closed stdout and stderr"),
}
METADATA = {
    "no-value": ("Metadata-Version: 2.1\nName: no-value\nVersion: 1.0\n", b"[lightrl.v1]\nno-value\n"),
    "no-module": ("Metadata-Version: 2.1\nName: no-module\nVersion: 1.0\n", b"[lightrl.v1]\nno-module =\n"),
    "no-text": ("Metadata-Version: 2.1\nName: no-text\nVersion: 1.0\n", b"[lightrl.v1]\n\xff\xfe = x\n"),
    "unnamed": ("", b"[lightrl.v1]\nunnamed = unnamed\n"),
    "stranger": ("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n", b"[console_scripts]\nx\n"),
    "odd": ("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n", b"[lightrl.v1]\nodd\x1b[31m = no_such_module\n"),
}


def test_low_names_and_words_of_plugins_command_no_terminal(site: Site) -> None:
    odd = "from lightrl import NoClip, hookimpl\nOdd = type('Odd\\x1b[31m', (NoClip,), {})\n"
    site.install("odd-name", f"{odd}@hookimpl\ndef lightrl_clip_schemes():\n    return [Odd]")
    site.install("odd-words", "raise ValueError('\\x1b[2J\\x07cleared')")
    records = site.report()["records"]
    assert "returned a class named" in str(records["odd-name"].error)
    assert "\\x1b[2J\\x07cleared" in str(records["odd-words"].error)
    assert not [record for record in records.values() if "\x1b" in f"{record.error}{record.traceback}"]


def test_low_plugins_list_answers_whatever_is_installed(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for what, (code, _) in UNRULY.items():
        site.install(what.replace(" ", "-"), code)
    for name, (metadata, entries) in METADATA.items():
        info = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(metadata)
        (info / "entry_points.txt").write_bytes(entries)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    # torch itself reads the entry points of every package when it is imported, and cannot be where one is broken
    environment.pop("LIGHTRL_PLUGINS", None)
    command = [sys.executable, "-m", "lightrl", "plugins", "list", "--json"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, answer.stderr
    records = {record["name"]: record for record in json.loads(answer.stdout)}
    assert records["lightrl"]["error"] is None
    for what, (_, said) in UNRULY.items():
        assert said in str(records[what.replace(" ", "-")]["error"]), what
    broken = {name for name, record in records.items() if "cannot be read" in str(record["error"])}
    assert broken == {"no-value", "no-module", "no-text", "None", "stranger"}
    assert not [name for name in records if not name.isprintable()]
    assert "Traceback" not in answer.stderr
