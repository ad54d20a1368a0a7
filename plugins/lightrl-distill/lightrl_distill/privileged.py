"""A teacher that reads more than the policy: a solution, a column of the data, or what the environment has said."""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from string import Formatter
from typing import Any

from torch import Tensor, nn

from lightrl import FrozenReference, Policy, Prompt, Reference, ScoredRollout, without_thoughts
from lightrl.text.chat_template import with_arguments
from lightrl.text.encoding import encode_prompt

JSON = Any
"""A value that `json.dumps` takes."""
OWN = ("prompt", "answer", "solution", "feedback")
"""Names in a template that are no columns of the data and no facts of an environment."""
WITH_SOLUTION = "{prompt}\n\nA correct solution:\n\n{solution}\n\nSolve the problem in your own words."
"""Shows a solution of the same group."""
WITH_FEEDBACK = "{prompt}\n\nAn earlier attempt failed:\n\n{feedback}\n\nSolve the problem."
"""Shows what the environment said last."""
WITH_ANSWER = "{prompt}\n\nThe correct answer:\n\n{answer}\n\nSolve the problem in your own words."
"""Shows the answer of the data."""


class PrivilegedTeacher(Reference):
    """A policy that is shown more than the one that learns, mostly the same policy: self-distillation.

    pi_T(. | o_<t) = pi_ref(. | x', o_<t): the completion is the policy's, and the prompt x' is the first template whose names are all
    known of the row. Rows of which no template can be filled have no part in `TeacherLoss` and `TeacherAdvantage`; `teacher/informed` is
    the share of the others.

    Names are `{prompt}` (the prompt, or the last message of its user), `{answer}`, `{solution}` (the first other completion of the group
    that is right, without its thoughts), `{feedback}` (the last message of the environment), columns of the data, and facts of the
    environment (`state`). Braces that mean themselves are written twice.

    Source: Zhao et al. 2026 (OPSD), arXiv:2601.18734; Hübotter et al. 2026 (SDPO), arXiv:2601.20802; Shenfeld et al. 2026 (SDFT),
    arXiv:2601.19897.
    """

    def __init__(
        self,
        templates: Sequence[str] = (WITH_ANSWER,),
        reference: Reference | None = None,
        reward: str | None = None,
        right_from: float = 1.0,
        chat_template_kwargs: dict[str, JSON] | None = None,
    ) -> None:
        """
        Args:
            templates: of the prompt, the one that is preferred first.
            reference: whose weights the teacher has; null: the policy as it was before the first step. `MovingAverageReference` follows it.
            reward: the one that says which completions are right; null: the only one there is.
            right_from: the score from which one is, raw and unweighted.
            chat_template_kwargs: arguments of the chat template for the teacher alone, such as `enable_thinking: true`.

        Raises:
            ValueError: no template, or one without a name in it.
        """
        self.templates = {template: _names(template) for template in templates}
        if not self.templates:
            raise ValueError("PrivilegedTeacher needs at least one template of a prompt")
        self.reference = FrozenReference() if reference is None else reference
        self.reward, self.right_from, self.chat_template_kwargs = reward, right_from, chat_template_kwargs or {}
        inner = self.reference
        self.wants_adapters, self.starts_as_policy, self.gives_logits = inner.wants_adapters, inner.starts_as_policy, inner.gives_logits

    @property
    def needs_rewards(self) -> bool:
        return any("solution" in names for names in self.templates.values())

    def contexts(self, rows: ScoredRollout, policy: nn.Module) -> Sequence[Sequence[int]]:
        """See `Reference.contexts`.

        Raises:
            ValueError: a name that no row knows, an environment that does not open with the prompt, or no reward that says what is right.
        """
        if not isinstance(policy, Policy):
            raise TypeError(f"PrivilegedTeacher writes prompts for a lightrl.Policy, and this is a {type(policy).__name__}")
        self._refuse_unknown(rows)
        encode, known = self._encoder(policy), {}
        solutions = self._solutions(rows) if self.needs_rewards else {}
        found: list[list[int]] = []
        for row, prompt in enumerate(rows.prompts):
            filled = self._filled(prompt, _facts(rows, row, solutions.get(row)))
            key = prompt.id, filled
            if filled is not None and key not in known:
                _refuse_other_opening(rows, row, policy)
                known[key] = encode(_with_text(prompt, filled))
            found.append([] if filled is None else known[key])
        return found

    def _encoder(self, policy: Policy) -> Callable[[Prompt], list[int]]:
        if not self.chat_template_kwargs:
            return policy.encode
        tokenizer = copy.copy(policy.tokenizer)
        tokenizer.chat_template = with_arguments(tokenizer.chat_template, self.chat_template_kwargs, "teacher.chat_template_kwargs")
        return lambda prompt: encode_prompt(tokenizer, prompt, policy.eos_token_ids).ids

    def _filled(self, prompt: Prompt, facts: Mapping[str, JSON]) -> str | None:
        """The first template whose names are all known."""
        texts = {name: str(fact) for name, fact in facts.items() if fact not in (None, "")} | {"prompt": _text_of(prompt)}
        chosen = next((template for template, names in self.templates.items() if names <= texts.keys()), None)
        return None if chosen is None else chosen.format(**texts)

    def _solutions(self, rows: ScoredRollout) -> dict[int, str]:
        """For each row another completion of its group that is right, if there is one."""
        names = list(rows.reward_parts)
        name = names[0] if self.reward is None and len(names) == 1 else self.reward
        if name not in rows.reward_parts:
            raise ValueError(
                f"PrivilegedTeacher shows solutions, and reward is {self.reward!r}: it must name the one that says what is right, of: "
                f"{', '.join(names) or 'none, since model.rewards is empty'}"
            )
        score = rows.reward_parts[name]
        if score.dim() != 1:
            raise ValueError(f"PrivilegedTeacher shows solutions, and the reward {name!r} scores tokens and not rows: name another one")
        right = ((score >= self.right_from) & rows.scorable).nonzero()[:, 0].tolist()
        of_group: dict[int, list[int]] = {}
        for row in right:
            of_group.setdefault(int(rows.group[row]), []).append(row)
        found = {}
        for row, group in enumerate(rows.group.tolist()):
            other = next((right_one for right_one in of_group.get(group, ()) if right_one != row), None)
            if other is not None:
                found[row] = without_thoughts(rows.completions[other]).strip()
        return found

    def _refuse_unknown(self, rows: ScoredRollout) -> None:
        facts = {name for row, prompt in enumerate(rows.prompts) for name in (*prompt.columns, *rows.episode(row).state)}
        for template, names in self.templates.items():
            if rows.prompts and (unknown := sorted(names - facts - {*OWN})):
                raise ValueError(
                    f"PrivilegedTeacher.templates: {template!r} names {', '.join(unknown)}, which no prompt has as a column and no "
                    f"environment has told; there are: {', '.join([*OWN, *sorted(facts)])}"
                )

    def check(self, policy: nn.Module) -> None:
        self.reference.check(policy)

    def build(self, policy: nn.Module) -> None:
        self.reference.build(policy)

    def logprobs(self, policy: nn.Module, input_ids: Tensor, mask: Tensor, temperature: float = 1.0) -> Tensor:
        return self.reference.logprobs(policy, input_ids, mask, temperature)

    def logits(self, policy: nn.Module, input_ids: Tensor, mask: Tensor, temperature: float = 1.0) -> Callable[[slice], Tensor]:
        return self.reference.logits(policy, input_ids, mask, temperature)

    @property
    def kept_bytes(self) -> int:
        return self.reference.kept_bytes

    def at_hand(self, policy: nn.Module) -> AbstractContextManager[None]:
        return self.reference.at_hand(policy)

    def moves_at(self, step: int) -> bool:
        return self.reference.moves_at(step)

    def after_step(self, policy: nn.Module, step: int) -> None:
        self.reference.after_step(policy, step)


def _names(template: str) -> frozenset[str]:
    """The names in a template; a ValueError if there is none, or one that is no plain name."""
    try:
        names = {name for _, name, _, _ in Formatter().parse(template) if name is not None}
    except ValueError as error:
        raise ValueError(f"PrivilegedTeacher.templates: {template!r} cannot be read: {error}; a brace is written twice") from error
    if not names or any(not name.isidentifier() for name in names):
        raise ValueError(f"PrivilegedTeacher.templates: {template!r} needs names in braces, such as {{prompt}}; a brace is written twice")
    return frozenset(names)


def _text_of(prompt: Prompt) -> str:
    """A prompt of plain text, or the last message of the user."""
    return prompt.text if prompt.text is not None else str((prompt.messages or ())[_last_of_user(prompt)]["content"])


def _last_of_user(prompt: Prompt) -> int:
    found = [number for number, message in enumerate(prompt.messages or ()) if message["role"] == "user"]
    if prompt.rendered or not found:
        kind = "is what a chat template wrote" if prompt.rendered else "has no message of a user"
        raise ValueError(f"PrivilegedTeacher writes another prompt, and {prompt.id!r} {kind}: give messages, or plain text")
    return found[-1]


def _with_text(prompt: Prompt, text: str) -> Prompt:
    """The prompt with this text in place of its own, or of the last message of its user."""
    if prompt.text is not None:
        return replace(prompt, text=text)
    messages, last = [*(prompt.messages or ())], _last_of_user(prompt)
    messages[last] = {**messages[last], "content": text}
    return replace(prompt, messages=tuple(messages))


def _facts(rows: ScoredRollout, row: int, solution: str | None) -> dict[str, JSON]:
    prompt, episode = rows.prompts[row], rows.episode(row)
    last = episode.messages[-1] if episode.messages else {"role": "assistant"}
    feedback = None if last["role"] == "assistant" else last["content"]
    return {**prompt.columns, **episode.state, "answer": prompt.answer, "solution": solution, "feedback": feedback}


def _refuse_other_opening(rows: ScoredRollout, row: int, policy: Policy) -> None:
    own = policy.encode(rows.prompts[row])
    if rows.host.input_ids[row, : len(own)].tolist() != own:
        raise ValueError(
            f"PrivilegedTeacher writes another prompt, and the row of {rows.prompts[row].id!r} begins otherwise than with it: the "
            "environment opens episodes in words of its own"
        )
