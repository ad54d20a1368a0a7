"""The parts of the core pass the contracts of their kinds."""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from lightrl_workshop.contract_tests import Case, contract_cases, marked
from peft import LoHaConfig

from lightrl import (
    LoraPolicy,
    ProcessEngine,
    TinyPolicy,
    TransformersEngine,
)

ROWS = [{"prompt": f"{i}=", "answer": str(i)} for i in range(5)]


def json_lines(folder: Path) -> dict[str, str]:
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(f'{{"prompt": "{row["prompt"]}", "answer": "{row["answer"]}"}}' for row in ROWS))
    return {"path": str(path)}


def parquet(folder: Path) -> dict[str, str]:
    path = folder / "prompts.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    return {"path": str(path)}


def dataset(folder: Path) -> dict[str, str]:
    json_lines(folder)
    return {"name": str(folder)}


def base() -> TinyPolicy:
    return TinyPolicy(hidden=8, layers=1, heads=2)


def saved_adapters(folder: Path) -> dict[str, Any]:
    LoraPolicy(base(), r=2).build().save(folder)
    return {"base": base(), "path": str(folder)}


def pretrained(folder: Path) -> dict[str, str]:
    policy = base().build()
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    return {"path": str(folder)}


CASES = contract_cases(
    "lightrl.builtin",
    arguments={
        "ConstantLength": {"length": 9},
        "ExportPolicy": lambda folder: {"folder": str(folder / "policy")},
        "Function": {"path": "lightrl_workshop.toy.small_digits"},
        "JsonLines": json_lines,
        "LoraPolicy": {"base": base(), "r": 2},
        "OutcomeShaping": {"missing_eos_penalty": 0.5},
        "Parquet": parquet,
        "PeftPolicy": {"base": base(), "config": lambda: LoHaConfig(r=2, target_modules="all-linear")},
        "DatasetPrompts": dataset,
        "PretrainedPolicy": pretrained,
        "ProcessEngine": {"engine": TransformersEngine(max_new_tokens=6, slice_rows=2), "workers": 2},
        "SavedAdapters": saved_adapters,
        "Teacher": {"policy": base()},
        "TransformersEngine": {"max_new_tokens": 6},
    },
)


HOSTED = [case for case in CASES if case.cls is ProcessEngine and case.check.kind == case.kind]


@pytest.mark.parametrize("case", marked([case for case in CASES if case not in HOSTED]), ids=str)
def test_contract(case: Case, tmp_path: Path) -> None:
    case.run(tmp_path)


# each check starts processes, which takes some seconds
@pytest.mark.thorough
@pytest.mark.rare
@pytest.mark.parametrize("case", marked(HOSTED), ids=str)
def test_contract_of_hosted_engines(case: Case, tmp_path: Path) -> None:
    case.run(tmp_path)
