from lightrl_workshop import contract_tests

test_contract = contract_tests("shy_advantage")
