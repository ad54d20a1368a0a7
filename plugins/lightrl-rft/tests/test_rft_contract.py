"""What every class of a kind promises."""

from lightrl.testing import contract_tests

test_contract = contract_tests("lightrl_rft")
