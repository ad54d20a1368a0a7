"""The contract of every class that this package registers."""

from lightrl_workshop import contract_tests

from lightrl import Addition, DigitSorting, SingleTurn

SEVERAL = {"first": SingleTurn(), "second": SingleTurn()}
SOURCES = {"first": DigitSorting(2, 20), "second": Addition(1, 20)}
test_contract = contract_tests(
    "lightrl_curriculum", arguments={"Mixture": {"sources": SOURCES}, "EnvironmentByColumn": {"environments": SEVERAL}}
)
