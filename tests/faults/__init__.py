"""Faults, injected and counted: `python -m faults` the long form, `test_*.py` the short one."""
