"""The contract of every class that this package registers."""

from lightrl_preference import DPO
from lightrl_workshop import contract_tests

from lightrl import ChosenLikelihood, SortedPairs

test_contract = contract_tests(
    "lightrl_preference",
    arguments={
        "MixedObjective": {"objectives": {"first": DPO(), "second": ChosenLikelihood()}},
        "Unpaired": {"source": SortedPairs(length=3, examples=5)},
    },
)
