"""A reference with a policy of its own, such as a larger one that teaches."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from lightrl.parts.reference import FrozenReference, frozen
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.text.tokenizer import Tokenizer

SHOWN = 3
"""Tokens that an error names."""


class Teacher(FrozenReference):
    """Another policy, with weights from a place of its own, which never change.

    It rates the tokens that the policy sampled, so both must have the same vocabulary, and end their texts with the same tokens. Every rank
    holds the whole of it, in the dtype of its source. On a resume it is read again, so that no checkpoint stores it.
    """

    starts_as_policy = False
    rounds_as_policy = False

    def __init__(self, policy: PolicySource | None = None, offload: Literal["cpu"] | None = None) -> None:
        """
        Args:
            policy: where the teacher comes from, for example a `PretrainedPolicy` with a path and a revision; null: a run refuses to begin.
            offload: `cpu` keeps it there, with one more copy on the policy's device for the time of a pass; null keeps it on the device.
        """
        super().__init__(offload)
        self.policy = policy

    def check(self, policy: nn.Module) -> None:
        """See `Reference.check`. ValueError: no teacher is named, it cannot be had, or its tokens differ from the policy's."""
        if isinstance(policy, Policy):
            refuse_other_tokens(policy.tokenizer, self._source().tokenizer())

    def build(self, policy: nn.Module) -> None:
        """See `Reference.build`. ValueError: see `check`; or the two end their texts with other tokens."""
        self.check(policy)
        teacher = self._source().build()
        if isinstance(policy, Policy) and policy.eos_token_ids != teacher.eos_token_ids:
            ours, theirs = sorted(policy.eos_token_ids), sorted(teacher.eos_token_ids)
            raise ValueError(
                f"the policy ends its texts with the tokens {ours} and the teacher with {theirs}, so that it would find the ends of the "
                "policy unlikely: set eos_token_id in the generation_config.json of one as in that of the other"
            )
        self._anchor = frozen(teacher)

    def logprobs(self, policy: nn.Module, input_ids: Tensor, mask: Tensor, temperature: float = 1.0) -> Tensor:
        """See `Reference.logprobs`. ValueError: a row is longer than the teacher takes."""
        limit = getattr(self._anchor, "max_positions", None)
        if limit is not None and input_ids.shape[1] > limit:
            raise ValueError(
                f"a row of {input_ids.shape[1]} tokens is longer than the teacher takes, which is {limit}: lower "
                "model.engine.max_new_tokens, or keep long prompts out of the data"
            )
        return super().logprobs(policy, input_ids, mask, temperature)

    def _source(self) -> PolicySource:
        if self.policy is None:
            raise ValueError(
                "Teacher.policy is empty, so that there is no policy to learn from: name its source. Type for example: "
                "--model.algorithm.teacher.policy PretrainedPolicy --model.algorithm.teacher.policy.path FOLDER_OR_HUB_ID"
            )
        return self.policy


def refuse_other_tokens(policy: Tokenizer, teacher: Tokenizer) -> None:
    """Raise ValueError, with the first differences, if the ids of the policy mean something else to a teacher."""
    ours, theirs = policy.get_vocab(), teacher.get_vocab()
    differing = sorted(
        (token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token)), key=(theirs | ours).__getitem__
    )
    if differing:
        shown = "; ".join(f"{token!r} is {_place(ours.get(token))} and {_place(theirs.get(token))}" for token in differing[:SHOWN])
        raise ValueError(
            f"the teacher reads other tokens than the policy: {len(differing):,} tokens differ between {len(ours):,} of the policy and "
            f"{len(theirs):,} of the teacher. Of the policy and of the teacher, {shown}. Take a teacher with the policy's tokenizer"
        )
    roles = {role: (getattr(policy, role), getattr(teacher, role)) for role in ("bos_token_id", "eos_token_id")}
    if other := [f"{role} is {mine} and {its}" for role, (mine, its) in roles.items() if mine != its]:
        raise ValueError(
            f"the special tokens of policy and teacher differ: of the policy and of the teacher, {'; '.join(other)}. Set them alike in "
            "tokenizer_config.json"
        )


def _place(token_id: int | None) -> str:
    return "not there" if token_id is None else f"the id {token_id}"
