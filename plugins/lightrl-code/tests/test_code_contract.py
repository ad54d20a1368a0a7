"""The contract of every class that this package registers."""

from lightrl_workshop import contract_tests

test_contract = contract_tests(
    "lightrl_code", arguments={"UnitTests": {"unsafe": True}, "ToolEnvironment": {"tools": ["lightrl_code.arithmetic.add"]}}
)
