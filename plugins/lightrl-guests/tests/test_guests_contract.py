"""The contract of every class that this package registers."""

from lightrl_workshop import contract_tests

test_contract = contract_tests("lightrl_guests", arguments={"TRLEnvironment": {"path": "lightrl_guests.higher_lower.HigherLower"}})
