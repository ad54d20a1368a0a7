"""References by name: a run may have the anchor of its KL, a teacher, and more in slots of an algorithm's own."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightrl_workshop import quiet_trainer
from torch import Tensor, nn

from lightrl import (
    Advantage,
    Advantages,
    DigitSorting,
    Experience,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    PolicyGradient,
    PolicyOptimization,
    PromptData,
    Reference,
    Teacher,
    TinyPolicy,
    TransformersEngine,
)

STUDENT = TinyPolicy(hidden=8, layers=1, heads=2)
FIRST, SECOND = (TinyPolicy(hidden=16, layers=1, heads=2, seed=seed) for seed in (1, 2))


class Between(Advantage):
    """The mean of what two teachers say, less what the policy says."""

    needs_rewards = False

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"teacher_logprobs", "critic_of_style_logprobs"})

    def compute(self, experience: Experience) -> Advantages:
        said = (experience.needed("teacher_logprobs") + experience.needed("critic_of_style_logprobs")) / 2
        kept = experience.response_mask & experience.scorable[:, None]
        return Advantages(torch.where(kept, said - experience.old_logprobs, 0.0))


class TwoTeachers(GroupRelative):
    """Learns from two teachers, one in a slot of its own."""

    sampler = GroupSampler(group_size=2)
    advantage = Between()
    clip = PolicyGradient()
    teacher = Teacher(TinyPolicy(hidden=16, layers=1, heads=2, seed=1))
    critic_of_style: Reference | None = Teacher(TinyPolicy(hidden=16, layers=1, heads=2, seed=2))
    """A second teacher."""


def fitted(algorithm: Any, rewards: Any = None, **settings: Any) -> PolicyOptimization:
    module = PolicyOptimization(
        policy=STUDENT,
        algorithm=algorithm,
        rewards=rewards,
        engine=TransformersEngine(max_new_tokens=4, temperature=0.8),
        prompts_per_rollout=4,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-2),
    )
    quiet_trainer(max_epochs=2, limit_val_batches=1, **settings).fit(
        module, datamodule=PromptData(train=DigitSorting(examples=40), validation_size=4)
    )
    return module


def expected(source: TinyPolicy, rows: Any) -> Tensor:
    with torch.no_grad():
        return source.build()(rows.input_ids, rows.response_mask, rows.temperature).logprobs


def test_an_algorithm_may_have_several_references_each_by_its_name() -> None:
    rows = fitted(TwoTeachers(kl=KLPenalty(loss_coefficient=0.1))).experience
    assert rows is not None
    for word, source in {"ref_logprobs": STUDENT, "teacher_logprobs": FIRST, "critic_of_style_logprobs": SECOND}.items():
        torch.testing.assert_close(rows.needed(word), expected(source, rows), atol=1e-5, rtol=0)


def test_a_run_without_rewards_learns_from_teachers_and_says_nothing_of_rewards() -> None:
    module = fitted(TwoTeachers())
    rows = module.experience
    assert rows is not None
    assert rows.scorable.all()
    assert rows.reward_parts == {}
    assert rows.advantages.abs().sum() > 0
    assert not [name for name in module.numbers if "reward" in name and not name.startswith("perf/")]


def test_rewards_beside_a_teacher_may_have_no_weight() -> None:
    rewards = {"small": lambda completion: float("1" in completion)}
    module = PolicyOptimization(STUDENT, TwoTeachers(), {"small": rewards["small"]})
    module.collector.rewards.rewards["small"].weight = 0.0
    assert module.collector.rewards.weights == {"small": 0.0}


def test_without_rewards_an_advantage_that_reads_them_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.rewards is empty"):
        PolicyOptimization(STUDENT, GroupRelative())


def test_a_teacher_that_no_part_needs_is_not_built() -> None:
    algorithm = GroupRelative(teacher=Teacher())
    assert algorithm.references == {}
    fitted(algorithm, {"small": lambda completion: float("1" in completion)})


def test_a_part_without_its_teacher_is_refused_with_the_slot() -> None:
    with pytest.raises(ValueError, match="Between asks the critic_of_style, and TwoTeachers has none: set critic_of_style"):
        TwoTeachers(critic_of_style=None)


def test_no_checkpoint_holds_a_teacher(tmp_path: Path) -> None:
    fitted(TwoTeachers(), default_root_dir=tmp_path, callbacks=[ModelCheckpoint(dirpath=tmp_path)])
    (stored,) = tmp_path.rglob("*.ckpt")
    checkpoint = torch.load(stored, weights_only=True)
    assert checkpoint["lightrl"]["algorithm"] == {}
    assert checkpoint["state_dict"].keys() == {f"policy.{name}" for name in STUDENT.build().state_dict()}


SERVER = """
import http.server, json, sys, torch
from lightrl import TinyPolicy
teacher = TinyPolicy(hidden=16, layers=1, heads=2, seed=1).build()

class Rates(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with torch.no_grad():
            found = teacher(torch.tensor(asked["ids"]), torch.tensor(asked["mask"]), asked["temperature"]).logprobs
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(found.tolist()).encode())

    def log_message(self, *said):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Rates)
print(server.server_port, flush=True)
server.serve_forever()
"""


class ServedTeacher(Reference):
    """A teacher behind HTTP that rates given tokens."""

    starts_as_policy = False

    def __init__(self, url: str = "") -> None:
        """
        Args:
            url: of the server.
        """
        self.url = url

    def build(self, policy: nn.Module) -> None:
        pass

    def logprobs(self, policy: nn.Module, input_ids: Tensor, mask: Tensor, temperature: float = 1.0) -> Tensor:
        asked = json.dumps({"ids": input_ids.tolist(), "mask": mask.tolist(), "temperature": temperature}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url, asked), timeout=30) as answer:
            return torch.tensor(json.load(answer), device=input_ids.device)


@pytest.fixture
def server() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def test_a_teacher_behind_http_gives_what_the_same_teacher_gives_at_home(server: str) -> None:
    served, home = fitted(TwoTeachers(teacher=ServedTeacher(server))), fitted(TwoTeachers())
    torch.testing.assert_close(served.experience.needed("teacher_logprobs"), home.experience.needed("teacher_logprobs"))
    for one, other in zip(served.policy.parameters(), home.policy.parameters(), strict=True):
        torch.testing.assert_close(one, other)
