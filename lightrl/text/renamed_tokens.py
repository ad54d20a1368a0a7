"""A copy of a tokenizer in which control tokens have other names, so that their usual names are plain text."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lightrl.prompt import JSON
from lightrl.text.tokenizer import Backend, Tokenizer


def rename_tokens(tokenizer: Tokenizer, names: Mapping[str, str], dummy_prefix: bool) -> Backend:
    """A copy that gives the same ids, but knows some tokens by other names only.

    Not even the vocabulary has the old names: a Unigram or word-level model would find them there.

    Args:
        tokenizer: fast; stays as it is.
        names: the new name of each renamed token.
        dummy_prefix: the copy puts a space in front of a text if the tokenizer does, as for the beginning of a row; otherwise never.
    """
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    for token in spec["added_tokens"]:
        token["content"] = names.get(token["content"], token["content"])
    spec["model"] = _renamed(spec["model"], names)
    if not dummy_prefix:
        spec["normalizer"], spec["pre_tokenizer"] = without_dummy_prefix(spec["normalizer"]), without_dummy_prefix(spec["pre_tokenizer"])
    made = tokenizer.backend_tokenizer.from_str(json.dumps(spec))
    made.no_truncation()
    made.no_padding()
    return made


def has_dummy_prefix(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer puts a space in front of a text.

    Args:
        tokenizer: any; of one that is not fast nobody knows, and it counts as one that does not.
    """
    if not tokenizer.is_fast:
        return False
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    return any(without_dummy_prefix(spec[step]) != spec[step] for step in ("normalizer", "pre_tokenizer"))


def without_dummy_prefix(step: JSON) -> JSON:
    """A normalizer or pre-tokenizer, as `tokenizer.json` has it, that puts no space in front of a text.

    Args:
        step: or None, if there is none; also a sequence of several.
    """
    if not isinstance(step, dict):
        return step
    if step["type"] == "Sequence":
        key = "normalizers" if "normalizers" in step else "pretokenizers"
        steps = [without_dummy_prefix(inner) for inner in step[key]]
        return {**step, key: [inner for inner in steps if inner is not None]}
    if step["type"] == "Prepend":
        return None
    never: dict[str, dict[str, JSON]] = {"Metaspace": {"prepend_scheme": "never"}, "ByteLevel": {"add_prefix_space": False}}
    return {**step, **never.get(step["type"], {})}


def _renamed(model: Mapping[str, JSON], names: Mapping[str, str]) -> dict[str, JSON]:
    vocabulary = model["vocab"]
    made = dict(model)
    if isinstance(vocabulary, list):
        made["vocab"] = [[names.get(piece, piece), score] for piece, score in vocabulary]
    else:
        made["vocab"] = {names.get(piece, piece): i for piece, i in vocabulary.items()}
    if model.get("unk_token") is not None:
        made["unk_token"] = names.get(model["unk_token"], model["unk_token"])
    if model.get("merges"):
        made["merges"] = [merge for merge in model["merges"] if "".join(merge) not in names and names.keys().isdisjoint(merge)]
    return made
