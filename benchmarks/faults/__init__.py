"""Runs with a fault: alarms, mutated configs, killed runs."""
