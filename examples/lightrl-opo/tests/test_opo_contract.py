"""The contract of every algorithm and every advantage."""

from lightrl.testing import contract_tests

test_contract = contract_tests("lightrl_opo")
