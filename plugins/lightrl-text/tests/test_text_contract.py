"""The contract of every class that this package registers."""

from lightrl_workshop import contract_tests

test_contract = contract_tests(
    "lightrl_text",
    arguments={
        "JsonSchema": {"schema": {"type": "integer"}},
        "Length": {"target": 5},
        "RegularExpression": {"pattern": "[0-4]+"},
        "SoftOverlong": {"max_length": 12, "cache": 8},
    },
)
