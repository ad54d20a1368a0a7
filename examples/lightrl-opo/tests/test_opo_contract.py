"""What every algorithm and every advantage promises."""

from lightrl.testing import contract_tests

test_contract = contract_tests("lightrl_opo")
