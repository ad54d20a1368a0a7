"""The contract of every algorithm and every advantage."""

from lightrl_workshop import contract_tests

test_contract = contract_tests("lightrl_opo")
