import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_reasoning_gym import ReasoningGym, ReasoningGymScore
from lightrl_reasoning_gym.tasks import from_json, to_json

from lightrl import Prompt

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.dictionaries(st.integers() | st.tuples(st.integers(), st.text(max_size=2)), inner, max_size=3)
    ),
    max_leaves=8,
)


def prompt(**arguments: Any) -> Prompt:
    return ReasoningGym("chain_sum", size=1, **arguments).prompt(0)


def score(asked: Prompt, completion: str, **arguments: Any) -> float:
    """The score of a completion to a prompt that has travelled as JSON."""
    there = Prompt.from_json(json.loads(json.dumps(asked.to_json())))
    return ReasoningGymScore(**arguments).score(there, completion, answer=there.answer, **there.columns)


@given(VALUES)
def test_metadata_survives_json(value: Any) -> None:
    assert from_json(json.loads(json.dumps(to_json(value)))) == value


def test_what_has_no_json_form() -> None:
    with pytest.raises(ValueError, match="type set"):
        to_json({"a": {1}})


def test_a_sum_by_hand() -> None:
    source = ReasoningGym("chain_sum", size=5, seed=42, level=0)
    source.prepare()
    prompt = source.prompt(0)
    assert prompt.messages is not None
    assert [message["role"] for message in prompt.messages] == ["system", "user"]
    assert "<answer>answer here</answer>" in prompt.messages[0]["content"]
    expression = prompt.messages[1]["content"].partition(": ")[2].removesuffix(" =")
    left, operator, right = expression.split()
    expected = int(left) + int(right) if operator == "+" else int(left) - int(right)
    assert prompt.answer == str(expected)
    assert score(prompt, f"So <answer>{expected + 1}</answer>, no: <answer> {expected} </answer>") == 1.0
    assert score(prompt, f"<answer>{expected + 1}</answer>") < 1.0
    assert score(prompt, str(expected)) == 0.0
    assert score(prompt, str(expected), tag=None) == 1.0


@pytest.mark.parametrize("task", ["arc_1d", "graph_color", "knights_knaves", "rearc", "maze", "puzzle24", "time_intervals"])
def test_the_scores_are_those_of_the_package(task: str) -> None:
    """Also where metadata has tuples and numbers as keys, where there is no one answer, and where settings count."""
    import reasoning_gym

    theirs = reasoning_gym.create_dataset(task, size=2, seed=3)
    source = ReasoningGym(task, size=2, seed=3)
    for index in range(2):
        entry, prompt = theirs[index], source.prompt(index)
        assert prompt.columns["question"] == entry["question"]
        assert prompt.answer == to_json(entry["answer"])
        for answer in (str(entry["answer"]), "7", "nothing"):
            assert score(prompt, f"<answer>{answer}</answer>") == theirs.score_answer(answer, entry=entry)


def test_scores_follow_the_level_of_the_data() -> None:
    """The symbols that a ladder may end with depend on it: without its settings the scorer would not know the word."""
    for level in (0, 1):
        prompt = ReasoningGym("word_ladder", size=1, seed=1, level=level).prompt(0)
        assert score(prompt, f"<answer>{prompt.answer}</answer>") == 1.0


def test_a_level_is_harder_than_the_one_below() -> None:
    digits = [from_json(prompt(level=level).columns["metadata"])["difficulty"]["num_digits"] for level in (0, 3)]
    assert digits == [(1, 1), (1, 4)]
    assert prompt(level=3, config={"min_digits": 5, "max_digits": 5}).columns["metadata"]["num_digits"] == 5


@given(st.integers(0, 30), st.integers(0, 5))
def test_the_seed_and_the_number_decide_the_question(seed: int, index: int) -> None:
    one, other = (ReasoningGym("chain_sum", size=10, seed=seed) for _ in range(2))
    assert one.prompt(index) == other.prompt(index)
    shifted = ReasoningGym("chain_sum", size=10, seed=seed + index).prompt(0)
    assert (shifted.id, shifted.messages) == (one.prompt(index).id, one.prompt(index).messages)


def test_ways_to_ask() -> None:
    raw = ReasoningGym("chain_sum", system=None, chat=False).prompt(0)
    assert raw.text == raw.columns["question"]
    told = ReasoningGym("chain_sum", system="Only the number.", chat=False).prompt(0)
    assert told.text == f"Only the number.\n{told.columns['question']}"
    own = ReasoningGym("chain_sum", system="Only the number.").prompt(0)
    assert own.messages == ({"role": "system", "content": "Only the number."}, {"role": "user", "content": own.columns["question"]})


def test_answers_that_a_scorer_cannot_read() -> None:
    prompt = ReasoningGym("prime_factorization", size=1).prompt(0)
    with pytest.raises(ValueError, match="wrong"):
        score(prompt, "<answer>wrong</answer>")
    assert score(prompt, "<answer>wrong</answer>", unreadable=0.0) == 0.0


def test_votes_are_the_answers() -> None:
    reward = ReasoningGymScore()
    assert [reward.answer_in(text) for text in ("<answer> 7</answer>", "so <answer>7</answer>", "7")] == ["7", "7", None]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"task": "chain_sums"}, r"no task 'chain_sums'; near it: chain_sum.*there are: ab, acre"),
        ({"task": "chain_sum", "config": {"digits": 3}}, r"no setting 'digits'.*near it: .*max_digits.*there are: allow_negation"),
        ({"task": "chain_sum", "config": {"min_terms": 0}}, r"'chain_sum' refuses .*min_terms must be positive"),
        ({"task": "chain_sum", "level": 11}, r"levels 0 to 10, got level=11"),
        ({"task": "gsm_symbolic", "level": 0}, r"no curriculum, so leave level out"),
        ({"task": "chain_sum", "size": 0}, r"size >= 1"),
        ({"task": "chain_sum", "seed": -1}, r"seed >= 0"),
    ],
)
def test_what_cannot_be_asked(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ReasoningGym(**arguments).prepare()


def test_m1_an_answer_in_the_thoughts_is_none() -> None:
    reward = ReasoningGymScore()
    texts = ("<think><answer>7</answer></think>", "<think><answer>7</answer>", "<think><answer>6</answer></think><answer>7</answer>")
    assert [reward.answer_in(text) for text in texts] == [None, None, "7"]
    assert ReasoningGymScore(tag=None).answer_in("<think>6</think> 7") == "7"
