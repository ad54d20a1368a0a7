"""The contract of every reward shaping."""

from __future__ import annotations

from lightrl.parts.base import unpack
from lightrl.parts.shaping import RewardShaping
from lightrl.types import Experience
from lightrl_workshop.checks.check import Make, contract_check_on, expect
from lightrl_workshop.checks.examples import brief, experiences
from lightrl_workshop.checks.token_numbers import whole_batch_checks

KIND = "reward shaping"


whole_batch_checks(KIND, lambda part, rows: part.rewards(rows, rows.token_rewards), signed=True)


@contract_check_on(KIND, "rewards stay on sampled tokens of rows that were scored", experiences)
def on_tokens(make: Make[RewardShaping], rows: Experience) -> None:
    found, _ = unpack(make().rewards(rows, rows.token_rewards))
    outside = ~(rows.response_mask & rows.scorable[:, None])
    expect(found[outside] == 0, "a reward is paid outside the response or on a row that failed", found=found, **brief(rows))
