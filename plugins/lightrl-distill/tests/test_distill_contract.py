"""The contract of every class that this package registers."""

from lightrl_workshop import contract_tests

from lightrl import GroupCentered, TurnReturn

SUM = {"advantages": {"outcome": GroupCentered(), "turns": TurnReturn()}, "scale": "batch"}
test_contract = contract_tests("lightrl_distill", arguments={"AdvantageSum": SUM})
