"""The contract of every class that this package registers."""

from lightrl_workshop import contract_tests

test_contract = contract_tests("lightrl_gym", arguments={"TextArena": {"game": "GuessTheNumber-v0-raw"}})
