"""The contract of every class that this package registers."""

from lightrl_workshop import contract_tests

from lightrl import TinyPolicy

test_contract = contract_tests("lightrl_bitwise", arguments={"BitwisePolicy": {"base": TinyPolicy(hidden=16, layers=1, heads=2)}})
