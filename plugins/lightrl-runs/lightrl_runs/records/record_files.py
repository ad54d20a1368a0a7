"""The files of a record: tensors, notes and a data set, each there whole or not at all; nothing in them executes code when it is read."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from torch import Tensor

from lightrl import own_opening
from lightrl.strategies.atomic import partial, publish
from lightrl.strategies.disk import onto_disk
from lightrl.training.evaluating.evaluator import conversation
from lightrl.types import JSON, ScoredRollout, TrainingBatch
from lightrl_runs.records.packed_rows import pack
from lightrl_runs.records.record import FORMAT, Notes, Record, record_of

FOLDER = "records"
"""Of all records of a run, in its folder."""
CONFIG = "config.yaml"
"""Of the run, in the folder of each record, so that this folder is complete."""
CHECKPOINT = "checkpoint.pt"
"""Of the weights that learnt from the record, where they were written with it."""


class RecordError(ValueError):
    """A record cannot be read."""


def folder_of(run: Path, rollout: int) -> Path:
    """The folder of a record of a run; rollouts are numbered from 1."""
    return run / FOLDER / f"rollout={rollout}"


def recorded(run: Path) -> dict[int, Path]:
    """The folders of the complete records of a run, by rollout, the oldest first."""
    return {rollout: folder for rollout, folder in begun(run).items() if is_record(folder)}


def begun(run: Path) -> dict[int, Path]:
    """The folders of all records of a run, complete or not, by rollout, the oldest first."""
    found = {path.name.removeprefix("rollout="): path for path in (run / FOLDER).glob("rollout=*")}
    return dict(sorted((int(number), path) for number, path in found.items() if number.isdigit()))


def is_record(folder: Path) -> bool:
    """A folder holds the notes of the first rank, which are written last."""
    return (folder / "rank=0.json").is_file()


def write(folder: Path, batch: TrainingBatch, notes: Notes, rows: Iterable[dict[str, JSON]]) -> None:
    """Write what one rank learnt from, or raise a DiskError; the notes come last, so that a record with notes is complete."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    name, tensors = f"rank={notes.rank}", pack(batch)
    _publish(folder / f"{name}.safetensors", lambda path: save_file(tensors, path, {"lightrl": str(FORMAT)}))
    told = zip(rows, batch.completions, batch.finish_reason, strict=True)
    lines = (json.dumps(row | {"completion": text, "finish_reason": reason}, ensure_ascii=False) for row, text, reason in told)
    _publish(folder / f"{name}.jsonl", lambda path: path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8"))
    value = vars(notes) | {"engine": vars(notes.engine)}
    _publish(folder / f"{name}.json", lambda path: path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8"))


def read(folder: Path) -> list[Record]:
    """The record of every rank, in their order; a RecordError if a file is missing, damaged, or of a later version."""
    first = _read(folder, 0)
    return [first, *(_read(folder, rank) for rank in range(1, first.notes.ranks))]


def data_rows(batch: ScoredRollout, rewards: Tensor) -> Iterable[dict[str, JSON]]:
    """The rows of a rollout with the columns that `lightrl sample` writes, beside the completion and its finish reason."""
    from lightrl.cli.data_tools import number
    from lightrl.ops.moments import row_values

    parts = {name: row_values(part).tolist() for name, part in batch.reward_parts.items()}
    totals, tokens = rewards.tolist(), batch.response_lengths.tolist()
    for i, prompt in enumerate(batch.prompts):
        scores = {name: number(part[i]) for name, part in parts.items()}
        told = {"reward": number(totals[i]), "rewards": scores, "tokens": tokens[i], "group": int(batch.group[i])}
        yield {**prompt.columns, "id": prompt.id, "prompt": own_opening(prompt), "answer": prompt.answer, **told, **conversation(batch, i)}


def _publish(path: Path, write_to: Callable[[Path], object]) -> None:
    with onto_disk(path):
        place = partial(path)
        write_to(place)
        publish(place, path)


def _read(folder: Path, rank: int) -> Record:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    notes_file, rows_file, tensors_file = (folder / f"rank={rank}.{ending}" for ending in ("json", "jsonl", "safetensors"))
    if missing := [file.name for file in (notes_file, rows_file, tensors_file) if not file.is_file()]:
        raise RecordError(f"{str(folder)!r} is not complete: there is no {missing[0]}")
    try:
        notes: dict[str, Any] = json.loads(notes_file.read_text(encoding="utf-8"))
        if notes["format"] > FORMAT:
            raise RecordError(f"{str(folder)!r} has format {notes['format']}, and this version reads {FORMAT}: update lightrl")
        # a text may hold characters that end a line elsewhere
        rows = [json.loads(line) for line in rows_file.read_text(encoding="utf-8").split("\n")[:-1]]
        texts = [row["completion"] for row in rows], [row["finish_reason"] for row in rows]
        return record_of(Notes.from_json(notes), load_file(tensors_file), *texts)
    except RecordError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, SafetensorError, RuntimeError) as error:
        why = (str(error).splitlines() or [""])[0]
        raise RecordError(f"{str(folder)!r} is damaged: {type(error).__name__}: {why}") from error
