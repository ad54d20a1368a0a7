import sys
import types

import pytest

from lightrl import DecoupledClip, Function, NoClip
from lightrl.kinds import KINDS
from lightrl.registry.classes import Registry, UnknownName, first_line, registry
from lightrl.registry.known_packages import CORE
from lightrl.registry.loader import PluginRecord, path_of


class Gentle(NoClip):
    pass


def record(distribution: str, error: str | None = None, **classes) -> PluginRecord:
    paths = {kind: [path_of(cls) for cls in found] for kind, found in classes.items()}
    return PluginRecord(distribution.removeprefix("lightrl-"), distribution, "0.1.0", paths=paths, loaded=classes, error=error)


@pytest.fixture
def names() -> Registry:
    return Registry(
        [
            record(CORE, **{"clip scheme": [DecoupledClip, NoClip], "reward": [Function]}),
            record("lightrl-gentle", **{"clip scheme": [Gentle]}),
            record("lightrl-broken", error="ModuleNotFoundError: No module named 'foo'\nmore"),
        ]
    )


def refusal(names: Registry, kind: str, name: str, key: str = "") -> str:
    with pytest.raises(UnknownName) as caught:
        names.resolve(kind, name, key)
    return str(caught.value)


@pytest.mark.parametrize("name", ["Gentle", "lightrl-gentle:Gentle", f"{__name__}.Gentle"])
def test_a_class_is_found_by_name_distribution_and_path(names: Registry, name: str, monkeypatch) -> None:
    module = types.ModuleType(__name__)
    module.Gentle = Gentle
    monkeypatch.setitem(sys.modules, __name__, module)
    assert names.resolve("clip scheme", name) is Gentle


def test_an_unknown_name_says_what_exists_and_what_failed(names: Registry) -> None:
    assert refusal(names, "clip scheme", "DecoupledClipp", "model.algorithm.clip") == (
        "model.algorithm.clip: no clip scheme is named 'DecoupledClipp'. Did you mean 'DecoupledClip'? "
        "Known: DecoupledClip, NoClip (lightrl-core), Gentle (lightrl-gentle).\n"
        "Plugin 'broken' (lightrl-broken 0.1.0) did not load: ModuleNotFoundError: No module named 'foo'. See: lightrl plugins show broken"
    )


def test_case_is_forgiven_in_the_suggestion_only(names: Registry) -> None:
    assert "Did you mean 'NoClip'?" in refusal(names, "clip scheme", "noclip")


def test_a_name_of_another_kind_is_no_name_of_this_one(names: Registry) -> None:
    assert "no reward is named 'NoClip'" in refusal(names, "reward", "NoClip")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such.Thing", "'no_such.Thing' cannot be imported: No module named 'no_such'"),
        ("lightrl.parts.clip.Nothing", "clip.py) has no 'Nothing'; it has: ClipScheme"),
        ("lightrl.parts.function.Function", "is no clip scheme: it is registered as reward"),
        ("lightrl.parts.base.Part", "is no clip scheme: it is no subclass of lightrl.parts.clip.ClipScheme"),
        ("lightrl.parts.clip.dataclass", "is no clip scheme"),
    ],
)
def test_an_import_path_must_lead_to_the_right_kind(names: Registry, path: str, message: str) -> None:
    assert message in refusal(names, "clip scheme", path)


def test_a_class_that_no_plugin_registered_has_no_short_name(names: Registry) -> None:
    assert "no clip scheme is named 'SymmetricClip'" in refusal(names, "clip scheme", "SymmetricClip")
    assert names.resolve("clip scheme", "lightrl.parts.clip.SymmetricClip").__name__ == "SymmetricClip"


def test_a_plugin_cannot_take_a_name_of_the_core() -> None:
    taken = type("NoClip", (NoClip,), {})
    names = Registry([record("lightrl-thief", **{"clip scheme": [taken, Gentle]}), record(CORE, **{"clip scheme": [NoClip]})])
    assert names.resolve("clip scheme", "NoClip") is NoClip
    assert names.records[0].error == "it registers NoClip (clip scheme), and names of the core are reserved: rename the class"
    assert "Plugin 'thief'" in refusal(names, "clip scheme", "Gentle")


def test_the_same_name_in_two_kinds_is_no_collision() -> None:
    reward = type("NoClip", (Function,), {})
    names = Registry([record(CORE, **{"clip scheme": [NoClip]}), record("lightrl-other", reward=[reward])])
    assert names.resolve("reward", "NoClip") is reward


@pytest.mark.parametrize("kind", KINDS)
def test_every_registered_class_derives_from_that_of_its_kind(kind: str) -> None:
    assert all(issubclass(cls, KINDS[kind].base_class) for _, cls in registry().of_kind(kind))


def test_the_core_itself_loads() -> None:
    assert [r.error for r in registry().records if r.distribution == CORE] == [None]


def test_the_first_line_of_a_message() -> None:
    assert first_line("a\nb") == "a"
    assert first_line("\n a \n") == "a"
    assert first_line(None) == first_line("") == ""
