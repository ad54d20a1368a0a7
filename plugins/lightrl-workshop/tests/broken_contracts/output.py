"""One class for each check of the contract of outputs, which breaks that check."""

from __future__ import annotations

from broken_contracts.wrong import wrong

from lightrl import Entropy

KIND = "output"


BROKEN = {
    "it gives each position a finite number, in the type of the logits, and leaves them as they are": wrong(
        Entropy, compute=lambda self, logits, ids: logits.sub_(logits.logsumexp(-1, keepdim=True)).gather(1, ids[:, None])[:, 0]
    ),
    "positions have no influence on each other": wrong(Entropy, compute=lambda self, logits, ids: logits.softmax(-1).amax(-1) / len(ids)),
    "a constant added to the logits of a position changes nothing": wrong(Entropy, compute=lambda self, logits, ids: logits.amax(-1)),
    "its gradient is finite": wrong(Entropy, compute=lambda self, logits, ids: (logits.log_softmax(-1).amax(-1)).clamp(max=0).neg().sqrt()),
    "it has a name": wrong(Entropy, name="the entropy"),
}
