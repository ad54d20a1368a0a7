"""A teacher that reads more than the policy: which prompts it reads, what is learnt from it, and that no cut changes that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightrl_distill import OPSD, SDPO, ForwardKL, JensenShannon, PrivilegedTeacher, ReverseKL, TeacherLoss
from lightrl_workshop import quiet_trainer, random_rollout

from lightrl import DigitSorting, ExactMatch, Policy, PolicyOptimization, Prompt, PromptData, ScoredRollout, TinyPolicy, TransformersEngine
from lightrl.types import Episode

SHOWN = "{answer}|{prompt}"


def policy() -> Policy:
    return TinyPolicy(hidden=16, layers=1, heads=2, alphabet="0123456789=|>!").build().eval()


def rows_of(policy: Policy, prompts: list[Prompt], completions: list[str], scores: list[float], **changes: Any) -> ScoredRollout:
    """Rows of one group for prompts of one id."""
    ids = {prompt.id: number for number, prompt in enumerate(prompts)}
    rows = [policy.tokenizer(f"{p.text}{c}")["input_ids"] for p, c in zip(prompts, completions, strict=True)]
    width = max(map(len, rows))
    input_ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    there = torch.arange(width) < torch.tensor([len(row) for row in rows])[:, None]
    spoken = there & (torch.arange(width) >= torch.tensor([len(p.text or "") for p in prompts])[:, None])
    return ScoredRollout(
        prompts=prompts,
        completions=completions,
        input_ids=input_ids,
        attention_mask=there,
        response_mask=spoken,
        rollout_logprobs=torch.zeros(there.shape),
        group=torch.tensor([ids[prompt.id] for prompt in prompts]),
        finish_reason=["stop"] * len(prompts),
        policy_version=torch.zeros(len(prompts), dtype=torch.long),
        temperature=1.0,
        **{
            "reward_parts": {"correct": torch.tensor(scores)},
            "outcomes": {"correct": torch.zeros(len(prompts), dtype=torch.long)},
            "scorable": torch.ones(len(prompts), dtype=torch.bool),
            **changes,
        },
    )


def read(teacher: PrivilegedTeacher, rows: ScoredRollout, policy: Policy) -> list[str]:
    """The texts that the teacher reads in place of the prompts."""
    return ["".join(policy.tokenizer.convert_ids_to_tokens(list(context))) for context in teacher.contexts(rows, policy)]


ONE = Prompt(id="a", text="21=", answer="12", columns={"hint": "1"})
TWO = Prompt(id="b", text="43=", answer="34", columns={})


def test_the_first_template_whose_names_are_known_is_taken_and_rows_of_none_are_not_informed() -> None:
    tiny = policy()
    rows = rows_of(tiny, [ONE, TWO], ["12", "43"], [1.0, 0.0])
    assert read(PrivilegedTeacher([SHOWN]), rows, tiny) == ["12|21=", "34|43="]
    assert read(PrivilegedTeacher(["{hint}>{prompt}"]), rows, tiny) == ["1>21=", ""]
    assert read(PrivilegedTeacher(["{hint}>{prompt}", SHOWN]), rows, tiny) == ["1>21=", "34|43="]


def test_a_solution_is_another_completion_of_the_group_that_is_right() -> None:
    tiny = policy()
    rows = rows_of(tiny, [ONE] * 3 + [TWO] * 2, ["12", "21", "12=", "34", "43"], [1.0, 0.0, 1.0, 1.0, 0.0])
    teacher = PrivilegedTeacher(["{solution}|{prompt}"])
    assert read(teacher, rows, tiny) == ["12=|21=", "12|21=", "12|21=", "", "34|43="]
    # a row that is not scorable is no solution
    unknown = replace(rows, scorable=torch.tensor([False, True, True, True, True]))
    assert read(teacher, unknown, tiny) == ["12=|21=", "12=|21=", "", "", "34|43="]
    with pytest.raises(ValueError, match=r"reward is 'form'.*correct"):
        PrivilegedTeacher(["{solution}|{prompt}"], reward="form").contexts(rows, tiny)


def test_feedback_is_what_the_environment_said_last_and_a_fact_has_its_name() -> None:
    tiny = policy()
    asked, said = {"role": "user", "content": "21="}, {"role": "assistant", "content": "21"}
    failed = Episode((asked, said, {"role": "user", "content": "0!"}), turns=1, state={"score": 3})
    rows = rows_of(tiny, [ONE, ONE], ["21", "12"], [0.0, 1.0], episodes=[failed, Episode((asked, said), turns=1)])
    assert read(PrivilegedTeacher(["{feedback}{prompt}"]), rows, tiny) == ["0!21=", ""]
    assert read(PrivilegedTeacher(["{score}|{prompt}"]), rows, tiny) == ["3|21=", ""]


def test_messages_keep_their_form_and_the_teacher_has_template_arguments_of_its_own() -> None:
    tiny = TinyPolicy(hidden=16, layers=1, heads=2, alphabet="0123456789=|>!").build()
    tiny.tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if loud %}!{% endif %}"
    prompt = Prompt(id="a", messages=({"role": "system", "content": "0"}, {"role": "user", "content": "21="}), answer="12")
    bare = Prompt(id="a", text="021=", answer="12")
    rows = replace(rows_of(tiny, [bare], ["12"], [1.0]), prompts=[prompt])
    assert read(PrivilegedTeacher([SHOWN]), rows, tiny) == ["012|21="]
    assert read(PrivilegedTeacher([SHOWN], chat_template_kwargs={"loud": True}), rows, tiny) == ["012|21=!"]


@pytest.mark.parametrize("template", ["", "{}", "no name", "{prompt.text}", "{prompt"])
def test_templates_without_plain_names_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match="PrivilegedTeacher"):
        PrivilegedTeacher([template])


def test_names_that_nobody_knows_and_episodes_that_open_otherwise_are_refused() -> None:
    tiny = policy()
    rows = rows_of(tiny, [ONE], ["12"], [1.0])
    with pytest.raises(ValueError, match=r"hnt.*\bhint\b"):
        PrivilegedTeacher(["{hnt}{prompt}"]).contexts(rows, tiny)
    with pytest.raises(ValueError, match="'a' begins otherwise"):
        PrivilegedTeacher([SHOWN]).contexts(replace(rows, input_ids=rows.input_ids.roll(1)), tiny)


def test_log_probs_of_the_teacher_are_those_of_its_own_prompt_before_the_same_tokens() -> None:
    tiny = policy()
    rows = rows_of(tiny, [ONE, TWO], ["12", "4"], [1.0, 0.0])
    rows.contexts["teacher"] = [tuple(context) for context in PrivilegedTeacher(["{hint}>{prompt}"]).contexts(rows, tiny)]
    laid = rows.as_read("teacher")
    found = laid.at_rows(tiny(laid.input_ids, laid.mask(rows.response_mask)).logprobs)
    for row, text, spoken in ((0, "1>21=", "12"), (1, "43=", "4")):
        ids = torch.tensor([tiny.tokenizer(text + spoken)["input_ids"]])
        alone = tiny(ids, torch.arange(ids.shape[1])[None] >= len(text)).logprobs[0, len(text) :]
        torch.testing.assert_close(found[row, 3 : 3 + len(spoken)], alone)
    assert rows.informed("teacher").tolist() == [True, False]
    assert rows.informed("reference").tolist() == [True, True]


def test_entries_of_a_divergence_are_clipped_before_they_are_added() -> None:
    half, sure = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.8, 0.2]]).log()
    ids = torch.zeros(1, dtype=torch.long)
    entries = torch.tensor([0.8 * torch.tensor(1.6).log(), 0.2 * torch.tensor(0.4).log()])
    torch.testing.assert_close(ForwardKL().compare(half, sure, ids)[0], entries.sum())
    torch.testing.assert_close(ForwardKL(clip=0.05).compare(half, sure, ids)[0], 0.05 + entries[1])
    assert float(ForwardKL(clip=0.05).compare(half, sure, ids)) < 0
    torch.testing.assert_close(ReverseKL(clip=9.0).compare(half, sure, ids), ReverseKL().compare(half, sure, ids))
    torch.testing.assert_close(JensenShannon(clip=9.0).compare(half, sure, ids), JensenShannon().compare(half, sure, ids))


class Numbers(Callback):
    def __init__(self) -> None:
        self.rollouts: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.rollouts.append({name: float(value) for name, value in trainer.callback_metrics.items()})


def fit(algorithm: Any, micro_batch_tokens: int | None = None, rollouts: int = 2) -> tuple[torch.Tensor, list[dict[str, float]]]:
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2, alphabet="0123456789=|"),
        algorithm=algorithm,
        rewards={"correct": ExactMatch()},
        engine=TransformersEngine(max_new_tokens=4),
        prompts_per_rollout=4,
        micro_batch_tokens=micro_batch_tokens,
        optimizer=lambda p: torch.optim.SGD(p, lr=0.5),
    )
    seen = Numbers()
    trainer = quiet_trainer(max_epochs=rollouts, callbacks=[seen])
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(length=2, examples=40), validation_size=0))
    return torch.cat([p.detach().flatten() for p in module.policy.parameters()]), seen.rollouts


def test_a_step_does_not_depend_on_how_rows_are_cut_and_the_share_of_informed_rows_is_logged() -> None:
    def algorithm() -> OPSD:
        return OPSD(teacher=PrivilegedTeacher([SHOWN]), distillation=TeacherLoss(ReverseKL()))

    (whole, numbers), (cut, _) = fit(algorithm()), fit(algorithm(), 16)
    torch.testing.assert_close(whole, cut, rtol=0, atol=1e-6)
    assert [rollout["teacher/informed"] for rollout in numbers] == [1.0, 1.0]
    # what is read before them tells the teacher from the policy that it is a copy of
    (first, *_) = numbers
    assert first["distillation_loss"] > 1e-6, sorted(first)


def test_a_group_without_a_solution_teaches_nothing() -> None:
    start = torch.cat([p.flatten() for p in TinyPolicy(hidden=16, layers=1, heads=2, alphabet="0123456789=|").build().parameters()])
    never = PrivilegedTeacher(["{solution}|{prompt}"], right_from=2.0)
    after, numbers = fit(SDPO(teacher=never))
    assert torch.equal(after, start)
    assert numbers[0]["teacher/informed"] == 0.0


def test_a_run_that_shows_solutions_needs_a_reward_before_its_first_rollout_and_one_that_shows_answers_needs_none() -> None:
    assert not OPSD(teacher=PrivilegedTeacher([SHOWN])).needs_rewards
    with pytest.raises(ValueError, match=r"model\.rewards is empty"):
        PolicyOptimization(policy=TinyPolicy(), algorithm=SDPO(), rewards={})


def test_random_rows_have_no_contexts() -> None:
    rows = random_rollout(policy())
    assert rows.contexts == {}
    assert rows.as_read("teacher").input_ids is rows.input_ids
