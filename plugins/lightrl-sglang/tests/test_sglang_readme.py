"""The engines of the README can be built."""

import re
from pathlib import Path

import pytest
import yaml
from lightrl_sglang import SGLangEngine

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_engines_of_the_readme_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_KEY", "word")
    chosen = [yaml.safe_load(block)["model"]["engine"] for block in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)]
    assert {engine["class_path"] for engine in chosen} == {SGLangEngine.__name__}
    own, running = (SGLangEngine(**engine["init_args"]) for engine in chosen)
    assert (own.addresses, own.folder, own.devices, own.serve) == (None, "runs/sglang", "1", ["--context-length", "4096"])
    assert running.addresses == ["http://10.0.0.7:30000", "http://10.0.0.8:30000"]


def test_another_way_for_weights_has_a_name_of_its_own() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, type[SGLangEngine]] = {}
    exec(block, names)
    assert names["DiskEngine"](weights="disk").weights == "disk"
    with pytest.raises(ValueError, match="one of folder, adapters, disk, got 'floppy'"):
        names["DiskEngine"](weights="floppy")
