"""All checks of one model."""

import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import lightrl
from lightrl import Policy
from lightrl_check_model.check import Check
from lightrl_check_model.decoding import decoding_checks, narrow_check
from lightrl_check_model.folder import folder_checks
from lightrl_check_model.rows import dropout_check, forward_checks, gradient_check
from lightrl_check_model.template import template_checks

TEXTS = (
    "Question: what is 12 + 7? Answer: 12 + 7 = 19.",
    "Question: what is 12 + 5? Answer: 17.",
    "Question: what is 30 - 4? The answer of 30 - 4 is 26, and 26 + 4 = 30.",
    "(1, 2, 3): 1 < 2 < 3",
    "Question: what is 12 + 7? Answer: it is 20 - 1 = 19, which is the same as 12 + 7 = 19.",
)
"""Rows of several lengths, some of which begin alike."""
OURS = Path(lightrl.__file__).parent
"""A ValueError that is raised here refuses a model."""


def rows_of(policy: Policy) -> list[list[int]]:
    """`TEXTS` in tokens of the policy; letters that it has no token for are left out."""
    known = policy.tokenizer.get_vocab()
    letters = [text if len(known) > 256 else "".join(letter for letter in text if letter in known) for text in TEXTS]
    return [policy.tokenizer.encode(text, add_special_tokens=False) for text in letters]


def checks(policy: Policy) -> Iterator[Check]:
    """Check a policy, one property after the other.

    Args:
        policy: in float32, on the CPU; its gradients are lost.
    """
    rows = rows_of(policy)
    policy.eval()
    for name, part in (
        ("forward pass", lambda: forward_checks(policy, rows)),
        ("dropout", lambda: [dropout_check(policy, rows)]),
        ("gradient", lambda: [gradient_check(policy, rows)]),
        ("decoding", lambda: decoding_checks(policy, rows)),
        ("bfloat16", lambda: [narrow_check(policy, rows)]),
        ("folder", lambda: folder_checks(policy, rows)),
        ("template", lambda: template_checks(policy)),
    ):
        yield from _all_of(name, part)


def _all_of(name: str, part: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """The checks of a part; one that ends in an error is a fault, and the other parts go on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield from part()
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            said = (str(error).strip() or type(error).__name__).splitlines()[0]
            if isinstance(error, ValueError) and Path(last.filename).is_relative_to(OURS):
                yield Check(name, says=said, outcome="refused")
            else:
                yield Check(name, says=f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}: {said}", outcome="wrong")
