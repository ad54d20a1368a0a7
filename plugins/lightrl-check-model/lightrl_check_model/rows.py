"""Checks of a forward pass: each row must get the numbers that it gets alone, whatever the other rows are."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from lightrl import Policy
from lightrl_check_model.check import LIMIT, Check

Rows = Sequence[Sequence[int]]


def alone(model: Any, row: Sequence[int], of: Sequence[int] | None = None) -> Tensor:
    """`[L - 1]` float32 log-probs of the tokens of a row that runs without any other, but for the first.

    Args:
        model: of transformers.
        row: L token ids.
        of: the L token ids whose log-probs are wanted; None: those of the row.
    """
    ids = torch.tensor([list(row)])
    return chosen(model(input_ids=ids, use_cache=False).logits[0], torch.tensor(of or row))


def chosen(logits: Tensor, ids: Tensor) -> Tensor:
    """`[L - 1]` log-probs of `[L]` ids, each by the logits before it."""
    return logits[:-1].float().log_softmax(-1).gather(1, ids[1:, None])[:, 0]


def in_lightrl(policy: Policy, rows: Rows) -> list[Tensor]:
    """For each row its `[L - 1]` log-probs, computed by the policy for all rows together."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    real = torch.arange(width) < torch.tensor([len(row) for row in rows])[:, None]
    found = policy(ids, real & (torch.arange(width) > 0)).logprobs
    return [values[1 : len(row)] for values, row in zip(found, rows, strict=True)]


def apart(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """The largest difference between numbers of rows; infinite where one is not a number."""
    differences = [float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True)]
    return max(math.inf if math.isnan(difference) else difference for difference in differences)


@torch.no_grad()
def forward_checks(policy: Policy, rows: Rows) -> Iterator[Check]:
    """Compare the log-probs of rows that run together with those of each row alone.

    Args:
        policy: in evaluation mode.
        rows: token ids of some rows; several begin alike.
    """
    model = policy.model
    single = [alone(model, row) for row in rows]
    ours = in_lightrl(policy, rows)
    yield _future(policy, rows, single)
    yield Check("scoring head", ours=apart([in_lightrl(policy, [row])[0] for row in rows], single), says="log-probs of one row")
    packs = f"packs rows up to {policy.longest_packed} tokens" if policy.longest_packed < 1 << 40 else "packs rows"
    yield Check(
        "packed rows",
        difference_of_model(lambda: apart(packed_by_positions(model, rows), single)),
        apart(ours, single),
        packs if policy.longest_packed else "runs rows one beside the other, padded",
    )
    yield Check(
        "right padding",
        difference_of_model(lambda: apart(padded(model, rows, left=False), single)),
        apart(ours, single),
        "reads no padding",
    )
    backwards = in_lightrl(policy, rows[::-1])[::-1]
    yield Check("order of rows", ours=apart(backwards, single), says="the same rows from the last to the first")
    alike = [[*rows[0], row[-1], row[0]] for row in rows]
    yield Check(
        "shared prompts", ours=apart(in_lightrl(policy, alike), [alone(model, row) for row in alike]), says="a prompt that runs once"
    )


def _future(policy: Policy, rows: Rows, single: Sequence[Tensor]) -> Check:
    """Changes the last token of each row, which no other log-prob may notice; and the first, which all must."""
    model = policy.model
    changed = apart([alone(model, [*row[:-1], row[0]], of=row) for row in rows], single)
    if not (moved := apart([alone(model, [row[-1], *row[1:]]) for row in rows], single)) > 5 * LIMIT:
        says = f"the first token of a row changes the log-probs of the others by {moved:.1g}: nothing can be checked"
        return Check("causal", says=says, outcome="wrong")
    return Check("causal", model=changed, says="a token sees what follows it" if changed > LIMIT else "a token sees what precedes it alone")


def packed_by_positions(model: Any, rows: Rows) -> list[Tensor]:
    """Log-probs of rows that run as one row whose positions begin anew, as trainers pack them that ask the model for nothing more."""
    ids = torch.tensor([[token for row in rows for token in row]])
    positions = torch.tensor([[position for row in rows for position in range(len(row))]])
    logits = model(input_ids=ids, position_ids=positions, use_cache=False).logits[0]
    parts = logits.split([len(row) for row in rows])
    return [chosen(part, torch.tensor(row)) for part, row in zip(parts, rows, strict=True)]


def padded(model: Any, rows: Rows, left: bool) -> list[Tensor]:
    """Log-probs of rows that are padded on one side, with mask and positions, as `generate` and most trainers run them."""
    width = max(map(len, rows))
    fill = [[0] * (width - len(row)) for row in rows]
    ids = torch.tensor([[*pad, *row] if left else [*row, *pad] for pad, row in zip(fill, rows, strict=True)])
    mask = torch.tensor(
        [[0] * len(pad) + [1] * len(row) if left else [1] * len(row) + [0] * len(pad) for pad, row in zip(fill, rows, strict=True)]
    )
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False, **({"position_ids": positions} if left else {})).logits
    kept = [slice(len(pad), None) if left else slice(len(row)) for pad, row in zip(fill, rows, strict=True)]
    return [chosen(values[part], torch.tensor(row)) for values, part, row in zip(logits, kept, rows, strict=True)]


def difference_of_model(measured: Callable[[], float]) -> float | None:
    """A difference of the model as transformers runs it; None: it does not take such rows."""
    try:
        return measured()
    except (TypeError, ValueError, IndexError, AttributeError, RuntimeError):
        return None


def dropout_check(policy: Policy, rows: Rows) -> Check:
    """Two passes in training mode must agree.

    Args:
        policy: of lightrl.
        rows: as in `forward_checks`.
    """
    policy.train()
    with torch.no_grad():
        ours = apart(in_lightrl(policy, rows), in_lightrl(policy, rows))
    policy.eval()
    return Check("dropout", ours=ours, says="two passes in training mode", limit=0.0)


def gradient_check(policy: Policy, rows: Rows) -> Check:
    """The gradient of a loss over rows must be that of each row alone, and must not depend on the cut into micro-batches.

    Args:
        policy: in evaluation mode.
        rows: as in `forward_checks`.
    """
    weights = [torch.randn(len(row) - 1, generator=torch.Generator().manual_seed(i)) for i, row in enumerate(rows)]
    learning = [p for p in policy.model.parameters() if p.requires_grad]

    def gradient(values: Sequence[Tensor], part: slice = slice(None)) -> Sequence[Tensor]:
        loss = torch.stack([(found * weight).sum() for found, weight in zip(values, weights[part], strict=True)]).sum()
        return torch.autograd.grad(loss, learning, allow_unused=True, materialize_grads=True)

    expected = gradient([alone(policy.model, row) for row in rows])
    whole = gradient(in_lightrl(policy, rows))
    parts = [gradient(in_lightrl(policy, rows[part]), part) for part in (slice(2), slice(2, None))]
    cut = [a + b for a, b in zip(*parts, strict=True)]
    apart_by = [_norm([a - b for a, b in zip(found, expected, strict=True)]) / _norm(expected) for found in (whole, cut)]
    return Check("gradient", ours=max(apart_by), says="together and in two micro-batches, relative to its size")


def _norm(tensors: Sequence[Tensor]) -> float:
    return float(torch.stack([tensor.float().norm() for tensor in tensors]).norm())


def copied(model: Any, dtype: torch.dtype) -> Any:
    """A copy of a model in another format."""
    return copy.deepcopy(model).to(dtype)
